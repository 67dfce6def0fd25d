//! The data directory: a database of all objects, and a journal of what it does not have yet.

use super::journal::{self, Journal};
use super::table::TableKey;
use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `group NUL plural NUL key` to the revision (8 bytes, little endian) and the object's JSON.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What the directory's layout is called; another number is another program's.
const FORMAT: u64 = 2;
/// The layout before there was a journal, which is read, too.
const FORMAT_WITHOUT_JOURNAL: u64 = 1;
const FILE: &str = "steersman.redb";

/// redb's cache: the objects are in memory already, so just enough for the tree's inner pages and for a part of what
/// is written at a time.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// A row as it was found on the disk.
pub(crate) struct Row {
    pub(crate) table: TableKey,
    pub(crate) key: String,
    pub(crate) revision: u64,
    pub(crate) body: Vec<u8>,
}

/// What is on the disk: rows and the last revision.
pub(crate) struct Found {
    pub(super) data: Data,
    pub(crate) rows: Vec<Row>,
    pub(crate) revision: u64,
}

/// The open files of a data directory.
pub(super) struct Data {
    /// Closed after a failure: redb wants the file opened anew.
    database: Option<Database>,
    path: PathBuf,
    pub(super) journal: Journal,
}

/// Opens a data directory, or makes one. Refuses what it does not know.
pub(crate) fn open(dir: &Path) -> Result<Found, String> {
    std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    let (path, journal) = (dir.join(FILE), dir.join(journal::FILE));
    if path.exists() {
        return reopen(path, &journal);
    }
    if let Some(stranger) = stranger(dir)? {
        return Err(format!(
            "it holds {stranger}, which is not ours without {FILE}; choose an empty directory"
        ));
    }
    create(path, &journal).map_err(|error| error.to_string())
}

/// An entry that we would not have made.
fn stranger(dir: &Path) -> Result<Option<String>, String> {
    for entry in std::fs::read_dir(dir).map_err(|error| error.to_string())? {
        let name = entry
            .map_err(|error| error.to_string())?
            .file_name()
            .to_string_lossy()
            .into_owned();
        let is_ours = matches!(name.as_str(), "pki" | "up.json" | "up.log" | "lost+found");
        if !is_ours && !name.ends_with(".kubeconfig") {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn create(path: PathBuf, journal: &Path) -> Result<Found, redb::Error> {
    let database = redb::Builder::new()
        .set_cache_size(CACHE_BYTES)
        .create(&path)?;
    let journal = Journal::create(journal, 1)?;
    let transaction = database.begin_write()?;
    {
        transaction.open_table(OBJECTS)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("revision", 1)?;
    }
    transaction.commit()?;
    let database = Some(database);
    Ok(Found {
        data: Data {
            database,
            path,
            journal,
        },
        rows: Vec::new(),
        revision: 1,
    })
}

fn reopen(path: PathBuf, journal: &Path) -> Result<Found, String> {
    let database = open_file(&path).map_err(|error| match error {
        redb::DatabaseError::DatabaseAlreadyOpen => "it is in use by another process".to_owned(),
        error => format!("{FILE} is damaged or not ours: {error}; move it away to start empty"),
    })?;
    let mut read = read(&database).map_err(|error| format!("{FILE} is damaged: {error}"))?;
    let base = read.revision;
    let mut newer: BTreeMap<String, Option<(u64, Bytes)>> = BTreeMap::new();
    let journal = match read.format {
        FORMAT => {
            let opened = Journal::open(journal, base, |row| {
                let body = row.body.map(Bytes::copy_from_slice);
                newer.insert(row.key.to_owned(), body.map(|body| (row.revision, body)));
            });
            let (journal, last) = opened?;
            read.revision = last;
            journal
        }
        FORMAT_WITHOUT_JOURNAL => Journal::create(journal, base)
            .map_err(|error| format!("{} cannot be made: {error}", journal::FILE))?,
        _ => {
            return Err(format!(
                "{FILE} was written by another version; this one reads format {FORMAT}"
            ));
        }
    };
    let mut data = Data {
        database: Some(database),
        path,
        journal,
    };
    if !data.journal.is_empty() || read.format != FORMAT {
        let rows = newer.iter().map(|(key, row)| (key.clone(), row.clone()));
        data.write(rows, read.revision)
            .map_err(|error| format!("{FILE} cannot be brought up to date: {error}"))?;
        read.rows.retain(|key, _| !newer.contains_key(key));
        read.rows.extend(
            newer
                .into_iter()
                .filter_map(|(key, row)| row.map(|row| (key, row))),
        );
    }
    let rows = read.rows.into_iter();
    Ok(Found {
        data,
        rows: rows.filter_map(|(key, row)| split(&key, row)).collect(),
        revision: read.revision,
    })
}

fn open_file(path: &Path) -> Result<Database, redb::DatabaseError> {
    redb::Builder::new().set_cache_size(CACHE_BYTES).open(path)
}

struct Read {
    format: u64,
    revision: u64,
    rows: BTreeMap<String, (u64, Bytes)>,
}

fn read(database: &Database) -> Result<Read, redb::Error> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    let number = |name: &str| meta.get(name).map(|value| value.map(|value| value.value()));
    let (format, revision) = (number("format")?.unwrap_or(0), number("revision")?);
    let mut rows = BTreeMap::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = entry?;
        if let Some((revision, body)) = value.value().split_first_chunk() {
            let row = (u64::from_le_bytes(*revision), Bytes::copy_from_slice(body));
            rows.insert(key.value().to_owned(), row);
        }
    }
    Ok(Read {
        format,
        revision: revision.unwrap_or(1),
        rows,
    })
}

fn split(key: &str, (revision, body): (u64, Bytes)) -> Option<Row> {
    let mut parts = key.splitn(3, '\0');
    let (group, plural, key) = (parts.next()?, parts.next()?, parts.next()?);
    Some(Row {
        table: (group.to_owned().into(), plural.to_owned().into()),
        key: key.to_owned(),
        revision,
        body: body.into(),
    })
}

impl Data {
    /// Writes rows (nothing for those that are gone) that make up everything in the journal, and perhaps more, to
    /// the database, for good. The journal is empty then.
    pub(super) fn write(
        &mut self,
        rows: impl Iterator<Item = (String, Option<(u64, Bytes)>)>,
        revision: u64,
    ) -> Result<(), redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => open_file(&self.path)?,
        };
        let transaction = database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for (key, row) in rows {
                let Some((revision, body)) = row else {
                    objects.remove(key.as_str())?;
                    continue;
                };
                let revision = revision.to_le_bytes();
                let mut row = objects.insert_reserve(key.as_str(), revision.len() + body.len())?;
                let (head, tail) = row.as_mut().split_at_mut(revision.len());
                head.copy_from_slice(&revision);
                tail.copy_from_slice(&body);
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT)?;
            meta.insert("revision", revision)?;
        }
        transaction.commit()?;
        self.database = Some(database);
        self.journal.restart(revision);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;
    use serde_json::json;

    /// Names and lengths of what a server finds that is started after this one was killed now.
    fn found_after_kill(dir: &Path) -> Vec<(String, usize)> {
        let copy = dir.join("copy");
        std::fs::create_dir_all(&copy).unwrap();
        for file in [FILE, journal::FILE] {
            std::fs::copy(dir.join(file), copy.join(file)).unwrap();
        }
        // Twice: what was found is brought to the database first.
        open(&copy).unwrap();
        let found = open(&copy).unwrap();
        std::fs::remove_dir_all(&copy).unwrap();
        let rows = found.rows.into_iter();
        rows.map(|row| (row.key, row.body.len())).collect()
    }

    #[tokio::test]
    async fn what_the_journal_cannot_hold_goes_to_the_database_with_what_is_in_it() {
        let name = format!("steersman-database-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        let store = Store::on_disk(open(&dir).unwrap(), 100, |_| Some(kind.clone()));
        let put = async |name: &str, length: usize| {
            let value = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(length)}});
            let written: Result<_, ()> =
                store.write(|transaction| Ok(transaction.put(kind, name, &value, None)));
            let (object, revision) = written.unwrap();
            store.durable(revision).await.unwrap();
            (name.to_owned(), object.body_len())
        };
        let (one, other) = (put("changed", 10).await, put("removed", 10).await);
        assert_eq!(found_after_kill(&dir), [one, other]);
        let changed = put("changed", 20).await;
        let large = put("large", 5_000_000).await;
        let removed: Result<_, ()> =
            store.write(|transaction| Ok(transaction.remove(kind, "removed")));
        store.durable(removed.unwrap().1).await.unwrap();
        let later = put("later", 10).await;
        let expected = [changed, large, later];
        assert_eq!(found_after_kill(&dir), expected);
        drop(store);
        assert_eq!(found_after_kill(&dir), expected);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
