//! The commands of the documents, run as a reader would: what is written there and what is tested cannot part.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The indented commands under a heading of a document, one text for each block.
pub fn blocks(document: &str, heading: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(document)).unwrap();
    let mut blocks: Vec<String> = Vec::new();
    let (mut under, mut open) = (false, false);
    for line in text.lines() {
        if line.starts_with("## ") {
            under = line == format!("## {heading}");
        }
        let command = line.strip_prefix("    ").filter(|_| under);
        match (command, open) {
            (Some(command), true) => blocks.last_mut().unwrap().extend([command, "\n"]),
            (Some(command), false) => blocks.push(format!("{command}\n")),
            (None, _) => {}
        }
        open = command.is_some();
    }
    assert!(!blocks.is_empty(), "{document} has no commands under \"{heading}\"");
    blocks
}

/// The block of these that has a word.
pub fn block_with(document: &str, heading: &str, word: &str) -> String {
    let all = blocks(document, heading);
    let found = all.iter().find(|block| block.contains(word));
    found
        .unwrap_or_else(|| panic!("{document}, \"{heading}\": no command has \"{word}\""))
        .clone()
}

/// A shell at the root of the repository with our helm and kubectl.
pub struct Shell {
    kubeconfig: PathBuf,
}

impl Shell {
    pub fn new(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    fn command(&self, commands: &str) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = Command::new(root.join("tests/controlplane/build"))
            .arg("--where")
            .output()
            .unwrap();
        let programs = String::from_utf8(programs.stdout).unwrap();
        let ours = root.join("tests/controlplane");
        let path = std::env::var("PATH").unwrap();
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
        let mut command = Command::new("sh");
        command
            .args(["-euc", commands])
            .current_dir(root)
            .env("PATH", format!("{}:{}:{path}", ours.display(), programs.trim_end()))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("SPOT_REFRESH_TOKEN", "my-token")
            .env("HELM_CACHE_HOME", &own)
            .env("HELM_CONFIG_HOME", &own)
            .env("HELM_DATA_HOME", &own);
        command
    }

    /// What the commands print, or what they say when one fails.
    pub fn run(&self, commands: &str) -> Result<String, String> {
        let output = self.command(commands).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{commands}{}{}", text(&output.stdout), text(&output.stderr)))
        }
    }

    /// The same, where nothing may fail.
    pub fn does(&self, commands: &str) -> String {
        self.run(commands).unwrap_or_else(|error| panic!("{error}"))
    }
}
