//! The source files, with and without comments.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One Rust file.
pub struct Source {
    /// Its path below the repository, with slashes.
    pub path: String,
    /// Its lines as they are.
    pub lines: Vec<String>,
    /// Its lines without comments and without the contents of texts.
    pub code: Vec<String>,
}

impl Source {
    /// The top-level module of a file below `src/`, if it belongs to one.
    pub fn module(&self) -> Option<&str> {
        let below = self.path.strip_prefix("src/")?;
        match below.split_once('/') {
            Some((module, _)) => Some(module),
            None => below.strip_suffix(".rs").filter(|name| !["lib", "main"].contains(name)),
        }
    }

    /// Lines of code that are part of the product, with their numbers: test modules are left out.
    pub fn product(&self) -> impl Iterator<Item = (usize, &String)> {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let whole = name == "tests.rs" || name.ends_with("_tests.rs") || self.path.contains("/tests/");
        // A test module of its own file is the last thing in it.
        let opens = |at: &usize| {
            self.code[*at].trim() == "#[cfg(test)]" && self.code.get(at + 1).is_some_and(|next| next.ends_with('{'))
        };
        let end = if whole {
            0
        } else {
            (0..self.code.len()).find(opens).unwrap_or(self.code.len())
        };
        self.code.iter().enumerate().take(end)
    }

    /// `path:line` for messages; `index` counts from 0.
    pub fn at(&self, index: usize) -> String {
        format!("{}:{}", self.path, index + 1)
    }
}

/// All Rust files below these folders of the repository, sorted by path.
pub fn rust_files(folders: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut paths);
    }
    paths.sort();
    let sources: Vec<Source> = paths.iter().map(|path| read(path)).collect();
    assert!(
        !sources.is_empty(),
        "no sources below {folders:?}: this test looks at nothing"
    );
    sources
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn read(path: &Path) -> Source {
    let text = fs::read_to_string(path).unwrap();
    let code = without_comments(&text);
    let path = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    let split = |text: &str| text.lines().map(str::to_owned).collect();
    Source {
        path,
        lines: split(&text),
        code: split(&code),
    }
}

/// Blanks comments and the contents of texts; keeps every newline, so that line numbers hold.
pub fn without_comments(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            ('/', Some('/')) => line_comment(&bytes, at),
            ('/', Some('*')) => block_comment(&bytes, at),
            ('"', _) => text_literal(&bytes, at),
            ('r', Some('"' | '#')) if !at.checked_sub(1).is_some_and(|before| is_word(bytes[before])) => {
                raw_literal(&bytes, at)
            }
            ('\'', _) => char_literal(&bytes, at),
            _ => at,
        };
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            bytes[at..end].iter().filter(|c| **c == '\n').for_each(|c| out.push(*c));
            at = end;
        }
    }
    out
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn line_comment(text: &[char], start: usize) -> usize {
    (start..text.len()).find(|at| text[*at] == '\n').unwrap_or(text.len())
}

fn block_comment(text: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) if depth == 1 => return at + 2,
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn text_literal(text: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn raw_literal(text: &[char], start: usize) -> usize {
    let hashes = text[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if text.get(open) != Some(&'"') {
        return start;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    (open + 1..text.len())
        .find(|at| text[*at..].starts_with(&closing))
        .map_or(text.len(), |at| at + closing.len())
}

fn char_literal(text: &[char], start: usize) -> usize {
    match (text.get(start + 1), text.get(start + 2)) {
        (Some('\\'), _) => (start + 3..text.len())
            .find(|at| text[*at] == '\'')
            .map_or(start, |at| at + 1),
        (Some(_), Some('\'')) => start + 3,
        // a lifetime
        _ => start,
    }
}

#[test]
fn comments_and_texts_are_blanked_and_code_is_kept() {
    let text =
        "a // x\nb /* y /* z */ */ c\nlet s = \"crate::k8s // no\"; d\nlet r = r#\"crate::\"x\"#; e 'a' '\\'' f<'x>\n";
    assert_eq!(without_comments(text), "a \nb  c\nlet s = ; d\nlet r = ; e   f<'x>\n");
}

/// Fails with one line per finding.
pub fn assert_none(findings: &[String], rule: &str) {
    assert!(findings.is_empty(), "{rule}\n  {}", findings.join("\n  "));
}
