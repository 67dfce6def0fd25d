//! `--merge-kubeconfig`: a context of ours in the user's own kubeconfig, for as long as the cluster is up.
//!
//! Everything else in that file stays as it is: other contexts, unknown fields, the current context. What was
//! there before is kept beside it, and put back byte for byte if nobody has changed anything in the meantime. Entries of
//! ours are marked, and only marked ones are ever replaced or taken away. A namespace that the user has set stays set.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::yaml;
use serde_json::{Map, Value, json};

use super::places;
use crate::files;

/// In `extensions`, where kubectl keeps what it does not know.
const MARK: &str = "steersman.dev";

/// kubectl holds its lock for milliseconds; whoever left one behind has to be named.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The three lists of a kubeconfig, and what an item of each is called.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// Puts the cluster of `own` (a kubeconfig of ours) into the user's file, under this name. Answers that file.
pub(crate) async fn merge(own: &str, own_path: &Path, name: &str) -> Result<PathBuf> {
    let path = users_file(own_path)?;
    // A link is followed: it is the file behind it that is to be replaced.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let _lock = Lock::take(&path).await?;
    let text = read(&path)?;
    let was_ours = text.contains(MARK);
    let merged = merged(&text, own, name).with_context(|| path.display().to_string())?;
    if merged == text {
        return Ok(path);
    }
    let backup = backup_of(&path);
    // The state before we came is the one worth keeping; where there was none, there is nothing to keep.
    if !text.is_empty() && !was_ours {
        files::write_private(&backup, &text)?;
    }
    replace(&path, &merged)?;
    Ok(path)
}

/// Takes our entries of this name out of the user's file again. Answers the namespace that the user had set in the context.
pub(crate) async fn unmerge(path: &Path, name: &str) -> Result<Option<String>> {
    let _lock = Lock::take(path).await?;
    let text = read(path)?;
    let (without, namespace) = without(&text, name).with_context(|| path.display().to_string())?;
    let Some(without) = without else {
        return Ok(None);
    };
    let backup = backup_of(path);
    let before = read(&backup)?;
    match () {
        () if is_empty(&without) && !backup.exists() => {
            // There was none before us.
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        () if !without.contains(MARK)
            && bare(&without).is_some_and(|one| Some(one) == bare(&before)) =>
        {
            replace(path, &before)?;
            let _ = std::fs::remove_file(&backup);
        }
        () => replace(path, &without)?,
    }
    Ok(namespace)
}

/// The kubeconfig of a cluster as its own file has it: under the cluster's name, with the namespace that the user has set
/// in what was there before.
pub(crate) fn own(served: &str, name: &str, before: &str) -> Result<String> {
    let mut config: Value = yaml::from_str(served)?;
    if name != places::context_of(places::DEFAULT) {
        for (list, item) in LISTS {
            config[list][0]["name"] = Value::from(name);
            if item == "context" {
                config[list][0][item]["user"] = Value::from(name);
                config[list][0][item]["cluster"] = Value::from(name);
            }
        }
        config["current-context"] = Value::from(name);
    }
    if let Some(namespace) = namespace_in(before, name) {
        config["contexts"][0]["context"]["namespace"] = Value::from(namespace);
    }
    Ok(yaml::to_string(&config))
}

/// The same kubeconfig with a namespace in its context.
pub(crate) fn with_namespace(own: &str, namespace: &str) -> Result<String> {
    let mut config: Value = yaml::from_str(own)?;
    config["contexts"][0]["context"]["namespace"] = Value::from(namespace);
    Ok(yaml::to_string(&config))
}

/// The namespace of a context; what cannot be read has none.
fn namespace_in(config: &str, name: &str) -> Option<String> {
    let config: Value = yaml::from_str(config).ok()?;
    let contexts = config.get("contexts")?.as_array()?;
    let context = contexts.iter().find(|one| one["name"] == name)?;
    let namespace = context["context"]["namespace"].as_str()?;
    Some(namespace.to_owned())
}

fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// With the rights that the file has.
fn replace(path: &Path, text: &str) -> Result<()> {
    let mode = std::fs::metadata(path).ok();
    files::write_private(path, text)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, mode.permissions())?;
    }
    Ok(())
}

fn backup_of(path: &Path) -> PathBuf {
    beside(path, ".before-steersman")
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
fn merged(users: &str, own: &str, name: &str) -> Result<String> {
    let mut config = parse(users)?;
    let own: Map<String, Value> = yaml::from_str(own)?;
    for (field, default) in [("apiVersion", "v1"), ("kind", "Config")] {
        config.entry(field).or_insert_with(|| Value::from(default));
    }
    let set = namespace_in(users, name);
    for (list, item) in LISTS {
        let mut entry = own_entry(&own, list, item, name)?;
        if let Some(namespace) = set.clone().filter(|_| item == "context") {
            entry[item]["namespace"] = Value::from(namespace);
        }
        let held = config
            .entry(list)
            .or_insert_with(|| Value::Array(Vec::new()));
        if held.is_null() {
            *held = Value::Array(Vec::new());
        }
        let Value::Array(held) = held else {
            bail!("{list}: it is not a list; nothing was changed");
        };
        put(held, entry, list, item, name)?;
    }
    config
        .entry("current-context")
        .or_insert_with(|| Value::from(name));
    Ok(yaml::to_string(&Value::Object(config)))
}

/// The user's kubeconfig without our entries of this name, and the namespace that was set in the context; nothing if there
/// are none.
fn without(users: &str, name: &str) -> Result<(Option<String>, Option<String>)> {
    let mut config = parse(users)?;
    let namespace = namespace_in(users, name);
    let mut found = false;
    for (list, item) in LISTS {
        if let Some(Value::Array(held)) = config.get_mut(list) {
            let before = held.len();
            held.retain(|one| one["name"] != name || !is_marked(&one[item]));
            found |= held.len() < before;
        }
    }
    if !found {
        return Ok((None, None));
    }
    // A context that is not there any more is not the current one; kubectl would refuse every command.
    if config
        .get("current-context")
        .is_some_and(|current| *current == name)
    {
        config.remove("current-context");
    }
    Ok((Some(yaml::to_string(&Value::Object(config))), namespace))
}

fn parse(users: &str) -> Result<Map<String, Value>> {
    let parsed = yaml::from_str::<Value>(users);
    match parsed.context("it is not YAML; nothing was changed")? {
        Value::Null => Ok(Map::new()),
        Value::Object(config) => Ok(config),
        _ => bail!("it is not a kubeconfig; nothing was changed"),
    }
}

/// Is there nothing of anybody in it?
fn is_empty(config: &str) -> bool {
    bare(config).is_some_and(|config| config.is_empty())
}

/// A kubeconfig without what every one has, and without what says nothing.
fn bare(config: &str) -> Option<Map<String, Value>> {
    let mut config = parse(config).ok()?;
    config.retain(|key, value| match key.as_str() {
        "apiVersion" | "kind" => false,
        _ => !value.is_null() && !value.as_array().is_some_and(Vec::is_empty),
    });
    Some(config)
}

/// Our first entry of a list, under our name and with our mark.
fn own_entry(own: &Map<String, Value>, list: &str, item: &str, name: &str) -> Result<Value> {
    let mut entry = own
        .get(list)
        .and_then(|entries| entries.get(0))
        .cloned()
        .context("our own kubeconfig lacks an entry")?;
    entry["name"] = Value::from(name);
    if item == "context" {
        entry[item]["user"] = Value::from(name);
        entry[item]["cluster"] = Value::from(name);
    }
    entry[item]["extensions"] = json!([{"name": MARK, "extension": "made by steersman up"}]);
    Ok(entry)
}

fn put(held: &mut Vec<Value>, entry: Value, list: &str, item: &str, name: &str) -> Result<()> {
    let namesake = held.iter_mut().find(|one| one["name"] == name);
    match namesake {
        None => held.push(entry),
        Some(found) if is_marked(&found[item]) => *found = entry,
        Some(_) => bail!(
            "{list}: there is an entry {name:?} that we did not make; rename it, or leave --merge-kubeconfig out"
        ),
    }
    Ok(())
}

fn is_marked(value: &Value) -> bool {
    let extensions = value["extensions"].as_array();
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

    const NAME: &str = "steersman-dev";

    fn value(text: &str) -> Value {
        yaml::from_str(text).unwrap()
    }

    #[test]
    fn others_stay_and_ours_is_replaced() {
        let once = merged(THEIRS, OWN, NAME).unwrap();
        let seen = value(&once);
        assert_eq!(seen["current-context"], "work");
        assert_eq!(seen["clusters"][0]["cluster"]["unheard-of"]["a"], 1);
        assert_eq!(seen["clusters"][1]["name"], NAME);
        assert_eq!(seen["contexts"][0]["context"]["user"], NAME);
        assert_eq!(seen["users"][0]["user"]["client-key-data"], "a2V5");
        let again = merged(&once, OWN, NAME).unwrap();
        assert_eq!(again, once, "again changes nothing");
        let moved = merged(&once, &OWN.replace("6443", "7443"), NAME).unwrap();
        let seen = value(&moved);
        assert_eq!(seen["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(
            seen["clusters"][1]["cluster"]["server"],
            "https://127.0.0.1:7443"
        );
    }

    #[test]
    fn what_was_merged_is_taken_away_again_and_nothing_else() {
        let one = merged(THEIRS, OWN, NAME).unwrap();
        let two = merged(&one, OWN, "steersman").unwrap();
        let (left, _) = without(&two, NAME).unwrap();
        let left = left.unwrap();
        assert!(
            !left.contains(NAME) && left.contains("name: steersman"),
            "{left}"
        );
        let (left, _) = without(&left, "steersman").unwrap();
        let left = value(&left.unwrap());
        assert_eq!(left["clusters"], value(THEIRS)["clusters"]);
        assert_eq!(left["current-context"], "work");
        let theirs = "contexts: [{name: steersman, context: {cluster: boat}}]";
        assert_eq!(without(theirs, "steersman").unwrap(), (None, None));
    }

    #[test]
    fn a_current_context_that_goes_is_no_longer_current() {
        let merged = merged("", OWN, NAME).unwrap();
        let (left, _) = without(&merged, NAME).unwrap();
        let left = left.unwrap();
        assert!(is_empty(&left), "{left}");
        assert!(!is_empty(THEIRS));
    }

    #[test]
    fn a_namespace_that_was_set_stays_set() {
        let set = |config: &str| {
            config.replace(
                "user: steersman-dev\n",
                "user: steersman-dev\n    namespace: shop\n",
            )
        };
        let once = set(&merged("", OWN, NAME).unwrap());
        let again = merged(&once, OWN, NAME).unwrap();
        assert_eq!(value(&again)["contexts"][0]["context"]["namespace"], "shop");
        assert_eq!(without(&again, NAME).unwrap().1.as_deref(), Some("shop"));
        let ours = own(OWN, NAME, "").unwrap();
        assert_eq!(value(&ours)["current-context"], NAME);
        assert!(!ours.contains("namespace"));
        let ours = own(OWN, NAME, &set(&ours)).unwrap();
        assert_eq!(value(&ours)["contexts"][0]["context"]["namespace"], "shop");
    }

    #[test]
    fn an_empty_file_gets_a_current_context() {
        let seen = value(&merged("", OWN, NAME).unwrap());
        assert_eq!(
            (seen["kind"].as_str(), seen["current-context"].as_str()),
            (Some("Config"), Some(NAME))
        );
    }

    #[test]
    fn what_is_not_ours_is_never_replaced() {
        let theirs = "clusters: [{name: steersman-dev, cluster: {server: 'https://boat'}}]";
        let refused = format!("{:#}", merged(theirs, OWN, NAME).unwrap_err());
        assert!(
            refused.contains("clusters: there is an entry \"steersman-dev\""),
            "{refused}"
        );
        for nonsense in ["{{{", "- a", "clusters: 7"] {
            assert!(merged(nonsense, OWN, NAME).is_err(), "{nonsense}");
        }
    }
}
