//! The Prometheus text format, read line by line: blocks of samples under their two comments.

/// What a family may be.
const KINDS: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

/// A family as it was written.
#[derive(Debug, Default)]
pub struct Block {
    pub name: String,
    pub help: String,
    /// Empty if there is no line about it.
    pub kind: &'static str,
    pub samples: Vec<Sample>,
}

/// One line of a family.
#[derive(Debug)]
pub struct Sample {
    pub name: String,
    /// In the order of writing.
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// The families in their order, and the lines that cannot be read.
pub fn read(text: &str) -> (Vec<Block>, Vec<String>) {
    let mut blocks: Vec<Block> = Vec::new();
    let mut faults = Vec::new();
    if !text.ends_with('\n') {
        faults.push("no line feed at the end".to_owned());
    }
    for line in text.lines() {
        let understood = match line.strip_prefix("# ") {
            Some(comment) => take_comment(comment, &mut blocks, &mut faults),
            None => take_sample(line, &mut blocks),
        };
        if understood.is_none() {
            faults.push(format!("cannot be read: {line}"));
        }
    }
    (blocks, faults)
}

/// `HELP name words` begins a family; `TYPE name word` goes on with it.
fn take_comment(comment: &str, blocks: &mut Vec<Block>, faults: &mut Vec<String>) -> Option<()> {
    let (keyword, rest) = comment.split_once(' ')?;
    let (name, words) = rest.split_once(' ')?;
    if !is_name(name) {
        return None;
    }
    match keyword {
        "HELP" => {
            if blocks
                .last()
                .is_some_and(|last| last.name == name && last.help.is_empty())
            {
                faults.push(format!("{name} has its type before its help"));
            }
            blocks.push(Block {
                name: name.to_owned(),
                help: unescaped(words, &['\\', 'n'])?,
                ..Block::default()
            });
        }
        "TYPE" => {
            let kind = KINDS.iter().copied().find(|kind| *kind == words)?;
            let is_open = |last: &Block| last.name == name && last.kind.is_empty() && last.samples.is_empty();
            block(blocks, is_open, name).kind = kind;
        }
        _ => return None,
    }
    Some(())
}

/// The open family if it is the right one, or a new one.
fn block<'a>(blocks: &'a mut Vec<Block>, is_it: impl Fn(&Block) -> bool, name: &str) -> &'a mut Block {
    if !blocks.last().is_some_and(is_it) {
        blocks.push(Block {
            name: name.to_owned(),
            ..Block::default()
        });
    }
    blocks.last_mut().unwrap()
}

/// `name{label="value",…} value`, without a time.
fn take_sample(line: &str, blocks: &mut Vec<Block>) -> Option<()> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = take_labels(inside, &mut labels)?;
    }
    let value = rest.strip_prefix(' ')?;
    if value.contains(' ') {
        return None;
    }
    let value: f64 = value.parse().ok()?;
    let parts = |last: &Block| match last.kind {
        "histogram" => ["_bucket", "_sum", "_count"].as_slice(),
        "summary" => ["", "_sum", "_count"].as_slice(),
        _ => [""].as_slice(),
    };
    let belongs = |last: &Block| {
        let rest = name.strip_prefix(last.name.as_str());
        rest.is_some_and(|rest| parts(last).contains(&rest))
    };
    block(blocks, belongs, name).samples.push(Sample {
        name: name.to_owned(),
        labels,
        value,
    });
    Some(())
}

/// Reads up to the closing brace and answers what follows it.
fn take_labels<'a>(mut rest: &'a str, labels: &mut Vec<(String, String)>) -> Option<&'a str> {
    loop {
        let (label, after) = rest.split_once("=\"")?;
        if !is_name(label) || label.contains(':') {
            return None;
        }
        let end = end_of_value(after)?;
        labels.push((label.to_owned(), unescaped(after.get(..end)?, &['\\', 'n', '"'])?));
        rest = after.get(end + 1..)?;
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// Where the quote is that is not escaped.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str, known: &[char]) -> Option<String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next().filter(|next| known.contains(next))? {
            'n' => out.push('\n'),
            other => out.push(other),
        }
    }
    Some(out)
}

fn is_name(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    text.chars().all(fits) && text.starts_with(|first: char| !first.is_ascii_digit())
}
