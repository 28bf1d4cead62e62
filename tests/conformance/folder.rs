//! Reading a folder of JSON lines, gzipped or not.

use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The text of a file, unpacked where its name ends in `.gz`.
pub fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

/// Family and cases of each file of JSON lines, by name.
pub fn families(folder: &Path) -> Vec<(String, Vec<Value>)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let named = paths.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let family = name
            .strip_suffix(".gz")
            .unwrap_or(name)
            .strip_suffix(".jsonl")?
            .to_owned();
        Some((family, path))
    });
    named
        .map(|(family, path)| {
            let lines = text(&path);
            (
                family,
                lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            )
        })
        .collect()
}
