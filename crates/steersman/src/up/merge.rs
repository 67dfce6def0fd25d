//! `--merge-kubeconfig`: a context `steersman` in the user's own kubeconfig.
//!
//! Everything else in that file stays as it is: other contexts, unknown fields, the current context. What was
//! there before is kept beside it. Entries of ours are marked, and only marked ones are ever replaced.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_yaml_ng::{Mapping, Value};

use crate::files;

/// The name of the cluster, user and context.
pub(crate) const NAME: &str = "steersman";

/// In `extensions`, where kubectl keeps what it does not know.
const MARK: &str = "steersman.dev";

/// kubectl holds its lock for milliseconds; whoever left one behind has to be named.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Puts the cluster of `own` (a kubeconfig of ours) into the user's file. Answers that file.
pub(crate) async fn merge(own: &str, own_path: &Path) -> Result<PathBuf> {
    let path = users_file(own_path)?;
    // A link is followed: it is the file behind it that is to be replaced.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let _lock = Lock::take(&path).await?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let was_ours = text.contains(MARK);
    let merged = merged(&text, own).with_context(|| path.display().to_string())?;
    if merged == text {
        return Ok(path);
    }
    let backup = beside(&path, ".before-steersman");
    // The state before we ever came is the one worth keeping.
    if !text.is_empty() && (!was_ours || !backup.exists()) {
        files::write_private(&backup, &text)?;
    }
    let mode = std::fs::metadata(&path)
        .ok()
        .map(|found| found.permissions());
    files::write_private(&path, &merged)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(&path, mode)?;
    }
    Ok(path)
}

/// As kubectl chooses where to write: the first file of `KUBECONFIG` that is there, else the last one, else
/// `~/.kube/config`. Our own file is not the user's, even though we ask for it to be in `KUBECONFIG`.
fn users_file(own: &Path) -> Result<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed)
        .filter(|path| !path.as_os_str().is_empty() && !is_same(path, own))
        .collect();
    let there = listed.iter().find(|path| path.exists());
    if let Some(path) = there.or(listed.last()) {
        return Ok(path.clone());
    }
    let home = std::env::var_os("HOME").context(
        "--merge-kubeconfig: HOME and KUBECONFIG are not set, so there is no file to merge into",
    )?;
    Ok(PathBuf::from(home).join(".kube").join("config"))
}

fn is_same(one: &Path, two: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(two)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The user's kubeconfig with our entries in it.
fn merged(users: &str, own: &str) -> Result<String> {
    let mut config = match serde_yaml_ng::from_str::<Value>(users)
        .context("it is not YAML; nothing was changed")?
    {
        Value::Null => Mapping::new(),
        Value::Mapping(config) => config,
        _ => bail!("it is not a kubeconfig; nothing was changed"),
    };
    let own: Mapping = serde_yaml_ng::from_str(own)?;
    for (field, default) in [("apiVersion", "v1"), ("kind", "Config")] {
        config
            .entry(Value::from(field))
            .or_insert_with(|| Value::from(default));
    }
    for (list, item) in [
        ("clusters", "cluster"),
        ("users", "user"),
        ("contexts", "context"),
    ] {
        let entry = own_entry(&own, list, item)?;
        let held = config
            .entry(Value::from(list))
            .or_insert_with(|| Value::Sequence(Vec::new()));
        if held.is_null() {
            *held = Value::Sequence(Vec::new());
        }
        let Value::Sequence(held) = held else {
            bail!("{list}: it is not a list; nothing was changed");
        };
        put(held, entry, list, item)?;
    }
    config
        .entry(Value::from("current-context"))
        .or_insert_with(|| Value::from(NAME));
    Ok(serde_yaml_ng::to_string(&config)?)
}

/// Our first entry of a list, under our name and with our mark.
fn own_entry(own: &Mapping, list: &str, item: &str) -> Result<Value> {
    let mut entry = own
        .get(list)
        .and_then(|entries| entries.get(0))
        .cloned()
        .context("our own kubeconfig lacks an entry")?;
    entry["name"] = Value::from(NAME);
    if item == "context" {
        entry[item]["user"] = Value::from(NAME);
        entry[item]["cluster"] = Value::from(NAME);
    }
    let mut mark = Mapping::new();
    mark.insert(Value::from("name"), Value::from(MARK));
    mark.insert(
        Value::from("extension"),
        Value::from("made by steersman up"),
    );
    entry[item]["extensions"] = Value::Sequence(vec![Value::Mapping(mark)]);
    Ok(entry)
}

fn put(held: &mut Vec<Value>, entry: Value, list: &str, item: &str) -> Result<()> {
    let namesake = held.iter_mut().find(|one| one["name"] == NAME);
    match namesake {
        None => held.push(entry),
        Some(found) if is_marked(&found[item]) => *found = entry,
        Some(_) => bail!(
            "{list}: there is an entry {NAME:?} that we did not make; rename it, or leave --merge-kubeconfig out"
        ),
    }
    Ok(())
}

fn is_marked(value: &Value) -> bool {
    let extensions = value["extensions"].as_sequence();
    extensions.is_some_and(|all| all.iter().any(|one| one["name"] == MARK))
}

/// kubectl's own lock: a file that must not be there yet.
struct Lock(PathBuf);

impl Lock {
    async fn take(path: &Path) -> Result<Lock> {
        if let Some(parent) = path.parent() {
            files::create_private_dir(parent)?;
        }
        let lock = beside(path, ".lock");
        let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
        loop {
            let made = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&lock);
            match made {
                Ok(_) => return Ok(Lock(lock)),
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(error).with_context(|| format!("cannot write {}", lock.display()));
                }
                Err(_) if tokio::time::Instant::now() >= deadline => bail!(
                    "{} says that kubectl is writing {}; remove it if that is not so",
                    lock.display(),
                    path.display()
                ),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever finds it left behind is told what to do.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "
clusters: [{name: steersman, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: Y2E=}}]
users: [{name: kubernetes-admin, user: {client-key-data: a2V5}}]
contexts: [{name: steersman, context: {cluster: steersman, user: kubernetes-admin}}]
current-context: steersman
";

    const THEIRS: &str = "apiVersion: v1
clusters:
- name: work
  cluster:
    server: https://work
    unheard-of: {a: 1}
contexts: null
current-context: work
preferences: {}
";

    #[test]
    fn others_stay_and_ours_is_replaced() {
        let once = merged(THEIRS, OWN).unwrap();
        let value: Value = serde_yaml_ng::from_str(&once).unwrap();
        assert_eq!(value["current-context"], "work");
        assert_eq!(value["clusters"][0]["cluster"]["unheard-of"]["a"], 1);
        assert_eq!(value["clusters"][1]["name"], NAME);
        assert_eq!(value["contexts"][0]["context"]["user"], NAME);
        assert_eq!(value["users"][0]["user"]["client-key-data"], "a2V5");
        assert_eq!(merged(&once, OWN).unwrap(), once, "again changes nothing");
        let moved = merged(&once, &OWN.replace("6443", "7443")).unwrap();
        let value: Value = serde_yaml_ng::from_str(&moved).unwrap();
        assert_eq!(value["clusters"].as_sequence().unwrap().len(), 2);
        assert_eq!(
            value["clusters"][1]["cluster"]["server"],
            "https://127.0.0.1:7443"
        );
    }

    #[test]
    fn an_empty_file_gets_a_current_context() {
        let value: Value = serde_yaml_ng::from_str(&merged("", OWN).unwrap()).unwrap();
        assert_eq!(
            (value["kind"].as_str(), value["current-context"].as_str()),
            (Some("Config"), Some(NAME))
        );
    }

    #[test]
    fn what_is_not_ours_is_never_replaced() {
        let theirs = "clusters: [{name: steersman, cluster: {server: 'https://boat'}}]";
        let refused = format!("{:#}", merged(theirs, OWN).unwrap_err());
        assert!(
            refused.contains("clusters: there is an entry \"steersman\""),
            "{refused}"
        );
        for nonsense in ["{{{", "- a", "clusters: 7"] {
            assert!(merged(nonsense, OWN).is_err(), "{nonsense}");
        }
    }
}
