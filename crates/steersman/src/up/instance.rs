//! Which clusters are up: one file for each, locked by the process for as long as it lives.
//!
//! The lock is the system's, so it goes with the process however that ends, and there is no such thing as a
//! stale one. What the file says is for `steersman status`, `steersman down` and whoever runs into the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::dashboard::Place;
use super::places;
use crate::files;

pub(crate) const FILE: &str = "up.json";

/// What a running `up` says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Facts {
    /// What it is called; no two in the usual places are called alike.
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Empty while it is starting.
    pub(crate) server: String,
    pub(crate) kubeconfig: PathBuf,
    /// The user's own kubeconfig, where it was asked to be in there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merged_into: Option<PathBuf>,
    pub(crate) nodes: usize,
    /// Where the data is; none for a cluster in memory.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dashboard: Option<Place>,
    /// Where it writes what it logs, unless that is standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
}

impl Running {
    pub(crate) fn name(&self) -> String {
        let told = self.facts.as_ref().map(|facts| facts.name.clone());
        told.filter(|name| !name.is_empty())
            .unwrap_or_else(|| name_of(&self.dir))
    }
}

impl Facts {
    pub(crate) fn of_this_process() -> Facts {
        Facts {
            name: String::new(),
            pid: std::process::id(),
            server: String::new(),
            kubeconfig: PathBuf::new(),
            merged_into: None,
            nodes: 0,
            data_dir: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dashboard: None,
            log: None,
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        !self.server.is_empty()
    }
}

/// The claim to a folder: as long as it is held, no other `up` uses it.
pub(crate) struct Instance {
    file: File,
    pub(crate) dir: PathBuf,
}

impl Instance {
    /// Claims a cluster's data folder, which must be there.
    pub(crate) fn claim(dir: &Path) -> Result<Instance> {
        match Instance::try_claim(dir)? {
            Some(instance) => Ok(instance),
            None => bail!("{}", in_use(dir)),
        }
    }

    /// Claims a place for the kubeconfig of a cluster in memory: the first one that is free.
    pub(crate) fn claim_in_memory() -> Result<Instance> {
        for dir in places::in_memory()? {
            files::create_private_dir(&dir)?;
            if let Some(instance) = Instance::try_claim(&dir)? {
                return Ok(instance);
            }
        }
        let count = places::IN_MEMORY_AT_ONCE;
        bail!("{count} clusters are up in memory already; stop one of them first")
    }

    fn try_claim(dir: &Path) -> Result<Option<Instance>> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = dir.join(FILE);
        let cannot = || format!("cannot use {}", path.display());
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).mode(0o600);
        let file = options.open(&path).with_context(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        let mut instance = Instance {
            file,
            dir: dir.to_owned(),
        };
        // What the last process said about itself is no longer true; who we are is known already.
        instance
            .announce(&Facts::of_this_process())
            .with_context(cannot)?;
        Ok(Some(instance))
    }

    /// Says what is up here.
    pub(crate) fn announce(&mut self, facts: &Facts) -> Result<()> {
        let text = serde_json::to_string(facts)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        Ok(())
    }
}

/// What is known of a cluster that is up.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) dir: PathBuf,
    /// None in the moment in which they are written.
    pub(crate) facts: Option<Facts>,
}

/// Is a cluster up in this folder?
pub(crate) fn look(dir: &Path) -> Option<Running> {
    let mut file = File::open(dir.join(FILE)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        // Nobody holds it, or nobody can tell.
        _ => return None,
    }
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    Some(Running {
        dir: dir.to_owned(),
        facts: serde_json::from_str(&text).ok(),
    })
}

/// What the cluster of a folder was called when it was last up.
pub(crate) fn name_of(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join(FILE)).unwrap_or_default();
    let facts = serde_json::from_str::<Facts>(&text).ok();
    facts
        .map(|facts| facts.name)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| places::name_of(dir))
}

/// All clusters that are up, wherever they are kept.
pub(crate) fn look_everywhere() -> Result<Vec<Running>> {
    let dirs = places::all()?;
    Ok(dirs.iter().filter_map(|dir| look(dir)).collect())
}

fn in_use(dir: &Path) -> String {
    let path = dir.display();
    let running = look(dir);
    let which = match &running {
        Some(running) => format!("--name {}", running.name()),
        None => format!("--data-dir {path}"),
    };
    let remedy = format!(
        "`steersman down {which}` stops it; another --name or --in-memory starts a second one"
    );
    match running.and_then(|running| running.facts) {
        Some(facts) if facts.is_serving() => format!(
            "a cluster is up in {path} already: {}, process {}; {remedy}",
            facts.server, facts.pid
        ),
        _ => format!("a cluster is starting or stopping in {path}; {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_lasts_as_long_as_its_holder() {
        let dir = std::env::temp_dir().join(format!("steersman-instance-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(look(&dir).is_none());
        let mut held = Instance::claim(&dir).unwrap();
        assert!(!look(&dir).unwrap().facts.unwrap().is_serving());
        let facts = Facts {
            pid: 7,
            server: "https://127.0.0.1:1".into(),
            ..Facts::of_this_process()
        };
        held.announce(&facts).unwrap();
        assert_eq!(look(&dir).unwrap().facts, Some(facts));
        let refused = Instance::claim(&dir).err().unwrap().to_string();
        assert!(
            refused.contains("https://127.0.0.1:1, process 7"),
            "{refused}"
        );
        drop(held);
        assert!(look(&dir).is_none());
        Instance::claim(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
