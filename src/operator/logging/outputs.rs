//! Where lines go: stdout, stderr, files (`LOG_OUTPUT_PATHS`), and where the logger's own failures go (`LOG_ERROR_OUTPUT_PATHS`).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A path that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("validating cli flags / env vars, invalid {variable} {path:?}")]
pub struct OutputsError {
    /// The setting.
    pub variable: &'static str,
    /// The path.
    pub path: String,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Open outputs.
#[derive(Debug, Clone)]
pub struct Outputs(Arc<Mutex<Sinks>>);

#[derive(Debug)]
struct Sinks {
    lines: Vec<Sink>,
    failures: Vec<Sink>,
}

enum Sink {
    Stdout,
    Stderr,
    File(File),
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Outputs {
    /// Opens what the settings name. Files are appended to.
    pub fn open(lines: &[String], failures: &[String]) -> Result<Self, OutputsError> {
        let open = |variable: &'static str, paths: &[String]| {
            let sinks = paths.iter().map(|path| {
                Sink::open(path).map_err(|source| OutputsError {
                    variable,
                    path: path.clone(),
                    source,
                })
            });
            sinks.collect::<Result<Vec<_>, _>>()
        };
        let sinks = Sinks {
            lines: open("LOG_OUTPUT_PATHS", lines)?,
            failures: open("LOG_ERROR_OUTPUT_PATHS", failures)?,
        };
        Ok(Self(Arc::new(Mutex::new(sinks))))
    }

    /// Lines kept in memory, for tests.
    pub fn in_memory() -> (Self, Arc<Mutex<Vec<u8>>>) {
        let memory = Arc::new(Mutex::new(Vec::new()));
        let sinks = Sinks {
            lines: vec![Sink::Memory(Arc::clone(&memory))],
            failures: Vec::new(),
        };
        (Self(Arc::new(Mutex::new(sinks))), memory)
    }

    /// Writes a line everywhere. A failure is told to the failure outputs and otherwise ignored: a full disk must not stop the operator.
    pub(super) fn write(&self, line: &str) {
        let mut sinks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Sinks { lines, failures } = &mut *sinks;
        for sink in lines {
            if let Err(error) = sink.write(line) {
                for failure in failures.iter_mut() {
                    let _ = failure.write(&format!("writing a log line: {error}\n"));
                }
            }
        }
    }
}

impl Sink {
    fn open(path: &str) -> io::Result<Self> {
        match path {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            path => OpenOptions::new().create(true).append(true).open(path).map(Self::File),
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().lock().write_all(line.as_bytes()),
            Self::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Self::File(file) => file.write_all(line.as_bytes()),
            Self::Memory(memory) => memory
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(line.as_bytes()),
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::File(_) => "file",
            Self::Memory(_) => "memory",
        })
    }
}
