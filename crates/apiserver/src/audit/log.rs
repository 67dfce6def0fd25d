//! Where events go: a file that is rotated by its size, or standard output.

use parking_lot::Mutex;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// `--audit-log-*`.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// None for standard output.
    pub path: Option<PathBuf>,
    /// After how many bytes the file is rotated.
    pub max_bytes: u64,
    /// How many rotated files are kept; 0 keeps all.
    pub max_backups: usize,
    /// After how many seconds they are deleted; 0 keeps them.
    pub max_age_seconds: i64,
    pub format: Format,
    /// Events that are larger lose their bodies.
    pub max_event_bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An event a line.
    Json,
    /// A line of text.
    Legacy,
}

pub(super) struct Log {
    options: LogOptions,
    /// None for standard output.
    file: Option<Mutex<(File, u64)>>,
}

impl Log {
    pub(super) fn open(options: LogOptions) -> std::io::Result<Log> {
        let file = match &options.path {
            None => None,
            Some(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                Some(Mutex::new(open(path)?))
            }
        };
        Ok(Log { options, file })
    }

    /// Writes an event. What cannot be written is said in the log: no request fails because of it.
    pub(super) fn write(&self, mut event: Value, now: api::MicroTime) {
        let mut line = self.line(&event);
        if self
            .options
            .max_event_bytes
            .is_some_and(|most| line.len() > most)
        {
            truncate(&mut event);
            line = self.line(&event);
        }
        line.push('\n');
        let written = match (&self.file, &self.options.path) {
            (Some(file), Some(path)) => self.append(&mut file.lock(), path, &line, now),
            _ => std::io::stdout().lock().write_all(line.as_bytes()),
        };
        if let Err(error) = written {
            tracing::error!(%error, "An audit event was lost");
        }
    }

    fn append(
        &self,
        file: &mut (File, u64),
        path: &Path,
        line: &str,
        now: api::MicroTime,
    ) -> std::io::Result<()> {
        let more = line.len() as u64;
        if file.1 > 0 && file.1 + more > self.options.max_bytes {
            std::fs::rename(path, rotated_name(path, now))?;
            *file = open(path)?;
            self.forget_old(path, now);
        }
        file.0.write_all(line.as_bytes())?;
        file.1 += more;
        Ok(())
    }

    /// Deletes rotated files beyond the number and age to keep.
    fn forget_old(&self, path: &Path, now: api::MicroTime) {
        let mut rotated = rotated_files(path);
        rotated.sort();
        let most = match self.options.max_backups {
            0 => usize::MAX,
            most => most,
        };
        let count = rotated.len();
        for (index, file) in rotated.iter().enumerate() {
            let age = std::fs::metadata(file).and_then(|metadata| metadata.modified());
            let seconds = age.ok().and_then(|time| {
                let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
                Some(now.time().unix() - i64::try_from(since.as_secs()).ok()?)
            });
            let limit = self.options.max_age_seconds;
            let is_old = limit > 0 && seconds.is_some_and(|seconds| seconds > limit);
            if is_old || count - index > most {
                // It may have been deleted by someone else.
                let _ = std::fs::remove_file(file);
            }
        }
    }

    fn line(&self, event: &Value) -> String {
        match self.options.format {
            Format::Json => event.to_string(),
            Format::Legacy => legacy(event),
        }
    }
}

fn open(path: &Path) -> std::io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// `audit-2026-11-18T02-00-00.000000.log` beside `audit.log`: names sort by time.
fn rotated_name(path: &Path, now: api::MicroTime) -> PathBuf {
    let time = now.to_string().replace(':', "-").replace('Z', "");
    let (stem, extension) = name_parts(path);
    path.with_file_name(format!("{stem}-{time}{extension}"))
}

fn name_parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let extension = path
        .extension()
        .map(|_| format!(".{}", text(path.extension())));
    (text(path.file_stem()), extension.unwrap_or_default())
}

fn rotated_files(path: &Path) -> Vec<PathBuf> {
    let (stem, extension) = name_parts(path);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let is_rotated = |file: &PathBuf| {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| {
            let middle = name
                .strip_prefix(&format!("{stem}-"))
                .and_then(|rest| rest.strip_suffix(&extension));
            middle.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let files = entries.into_iter().flatten().flatten();
    files.map(|entry| entry.path()).filter(is_rotated).collect()
}

/// UPSTREAM: bodies go, and it is said that they did.
fn truncate(event: &mut Value) {
    if let Some(event) = event.as_object_mut() {
        event.remove("requestObject");
        event.remove("responseObject");
    }
    event["annotations"]["audit.k8s.io/truncated"] = Value::from("true");
}

/// UPSTREAM: `pkg/audit/format.go`.
fn legacy(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("<none>").to_owned();
    let quoted = |value: &Value| match value.as_str() {
        Some(text) => format!("{text:?}"),
        None => "\"<none>\"".to_owned(),
    };
    let groups = |value: &Value| match value.as_array() {
        Some(groups) if !groups.is_empty() => {
            let groups: Vec<String> = groups.iter().map(&quoted).collect();
            groups.join(",")
        }
        _ => "\"<none>\"".to_owned(),
    };
    let user = &event["user"];
    let acting = &event["impersonatedUser"];
    let acting_name = match acting["username"].as_str() {
        Some(name) => format!("{name:?}"),
        None => "\"<self>\"".to_owned(),
    };
    let acting_groups = match acting.is_object() {
        true => groups(&acting["groups"]),
        false => "\"<lookup>\"".to_owned(),
    };
    let code = event["responseStatus"]["code"].as_i64();
    let code = code.map_or("<deferred>".to_owned(), |code| code.to_string());
    format!(
        "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={acting_name} asgroups={acting_groups} user-agent={} namespace={} uri={} response={code:?}",
        text(&event["requestReceivedTimestamp"]),
        quoted(&event["auditID"]),
        quoted(&event["stage"]),
        quoted(&event["sourceIPs"][0]),
        quoted(&event["verb"]),
        quoted(&user["username"]),
        groups(&user["groups"]),
        quoted(&event["userAgent"]),
        quoted(&event["objectRef"]["namespace"]),
        quoted(&event["requestURI"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(path: PathBuf) -> LogOptions {
        LogOptions {
            path: Some(path),
            max_bytes: 100,
            max_backups: 2,
            max_age_seconds: 0,
            format: Format::Json,
            max_event_bytes: Some(60),
        }
    }

    #[test]
    fn files_are_rotated_and_few_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.log");
        let log = Log::open(options(path.clone())).unwrap();
        for second in 0..10 {
            let now = api::Time::from_unix(1_800_000_000 + second).into();
            log.write(
                json!({"auditID": format!("{second}"), "stage": "ResponseComplete", "x": "xxxxx"}),
                now,
            );
        }
        assert_eq!(rotated_files(&path).len(), 2);
        let last = std::fs::read_to_string(&path).unwrap();
        assert!(last.contains("\"9\""), "{last}");
        assert!(last.len() <= 100);
    }

    #[test]
    fn large_events_lose_their_bodies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = Log::open(options(path.clone())).unwrap();
        let now = api::Time::from_unix(1_800_000_000).into();
        log.write(
            json!({"auditID": "1", "requestObject": "x".repeat(60)}),
            now,
        );
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            written.trim(),
            r#"{"annotations":{"audit.k8s.io/truncated":"true"},"auditID":"1"}"#
        );
    }
}
