//! Chores of the repository: writes what is generated, and with `--check` says whether it is up to date.
//!
//! A generator is one file here with a function that returns [`Output`]s; it is named in [`outputs`] and in nothing else.

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use std::fs;
use std::path::{Path, PathBuf};

mod crds;
mod docs;
mod pricing;

/// Chores of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write all generated files.
    Generate {
        /// Write nothing; fail if a file is not what it would become.
        #[arg(long)]
        check: bool,
    },
    /// Bring the built-in prices up to date.
    UpdatePricing {
        /// Address or file of a price feed, instead of the public one.
        #[arg(long)]
        from: Option<String>,
    },
}

/// One generated file.
pub(crate) struct Output {
    /// Where it belongs, from the root of the repository.
    pub(crate) path: PathBuf,
    /// What it holds.
    pub(crate) content: String,
}

/// Everything that is generated.
fn outputs(root: &Path) -> Result<Vec<Output>> {
    let mut all = crds::outputs()?;
    all.extend(docs::outputs(root)?);
    Ok(all)
}

fn main() -> Result<()> {
    let root = repository()?;
    match Cli::parse().chore {
        Chore::Generate { check: true } => compare(&root, &outputs(&root)?),
        Chore::Generate { check: false } => write(&root, &outputs(&root)?),
        Chore::UpdatePricing { from } => pricing::update(&root, from.as_deref()),
    }
}

/// The root of the repository: this package's parent folder.
fn repository() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .context("xtask has no parent folder")
}

fn write(root: &Path, outputs: &[Output]) -> Result<()> {
    for output in outputs {
        let path = root.join(&output.path);
        if fs::read_to_string(&path).is_ok_and(|present| present == output.content) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&path, &output.content).with_context(|| format!("writing {}", path.display()))?;
        eprintln!("wrote {}", output.path.display());
    }
    Ok(())
}

fn compare(root: &Path, outputs: &[Output]) -> Result<()> {
    let outdated: Vec<String> = outputs
        .iter()
        .filter(|output| !fs::read_to_string(root.join(&output.path)).is_ok_and(|present| present == output.content))
        .map(|output| format!("  {}", output.path.display()))
        .collect();
    if outdated.is_empty() {
        return Ok(());
    }
    bail!(
        "not up to date, run `cargo xtask generate` and commit:\n{}",
        outdated.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_up_to_date() {
        let root = repository().unwrap();
        compare(&root, &outputs(&root).unwrap()).unwrap();
    }
}
