//! The data folder: one redb file with all objects.

use super::record::{self, Row};
use super::reserve::{Reserve, is_reserve};
use crate::private_file;
use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs::{File, TryLockError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// See [`record`]. Keys are bytes: redb panics at text that is none.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");

/// Numbers and their checksums. Earlier versions have no such table.
const STATE: TableDefinition<'_, &str, (u64, u32)> = TableDefinition::new("state");

/// The layout of the file; another number is another version's.
const FORMAT: u64 = 3;
pub(super) const FILE: &str = "steersman.redb";
/// Beside the database in layouts before this one.
const OLD_JOURNAL: &str = "steersman.journal";

/// redb's cache: the objects are in memory already, so just enough for the tree's inner pages and for what is
/// written at a time.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// What is on the disk: rows and the last revision.
pub(crate) struct Found {
    pub(super) data: Data,
    pub(crate) rows: Vec<Row>,
    pub(crate) revision: u64,
}

/// The open database of a data folder.
pub(super) struct Data {
    /// Closed after a failure: redb wants the file opened anew.
    database: Option<Database>,
    path: PathBuf,
    /// The last revision that was committed.
    revision: u64,
    _lock: Lock,
}

/// All that can be read of a database.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) rows: Vec<Row>,
    /// Nothing if it is damaged.
    pub(super) revision: Option<u64>,
    /// What cannot be read, in words.
    pub(super) damage: Vec<String>,
}

/// Opens a data folder, or makes one. Refuses what it does not know, and what is damaged.
pub(crate) fn open(dir: &Path) -> Result<Found, String> {
    let lock = claim(dir)?;
    let path = dir.join(FILE);
    let (database, contents) = match path.symlink_metadata() {
        Ok(_) => read_file(&path)?,
        Err(_) => {
            if let Some(stranger) = stranger(dir).map_err(|error| error.to_string())? {
                return Err(format!(
                    "it holds {stranger}, which is not ours without {FILE}; choose an empty directory"
                ));
            }
            let new = create(&path, Vec::new(), 1);
            let database = new.map_err(|error| format!("{FILE} cannot be made: {error}"))?;
            let revision = Some(1);
            let contents = Contents {
                revision,
                ..Contents::default()
            };
            (Some(database), contents)
        }
    };
    let (Some(revision), Some(database)) = (contents.revision, database) else {
        let damage = contents.damage.join("; ");
        return Err(format!(
            "{FILE} is damaged: {damage}. --repair keeps everything else and says what it drops"
        ));
    };
    let data = Data {
        database: Some(database),
        path,
        revision,
        _lock: lock,
    };
    Ok(Found {
        data,
        rows: contents.rows,
        revision,
    })
}

/// Nobody else uses the folder while this is held.
pub(super) struct Lock(File);

impl Drop for Lock {
    /// A child that is being started may still have the file, too: closing it would not be enough.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Makes sure that the folder is there and that nobody else uses it.
pub(super) fn claim(dir: &Path) -> Result<Lock, String> {
    crate::private_file::create_dir(dir).map_err(|error| error.to_string())?;
    let lock = File::open(dir).map_err(|error| error.to_string())?;
    match lock.try_lock() {
        Ok(()) => Ok(Lock(lock)),
        Err(TryLockError::WouldBlock) => Err("it is in use by another process".to_owned()),
        Err(TryLockError::Error(error)) => Err(error.to_string()),
    }
}

/// An entry of a folder that we would not have made, nor left behind when we were killed.
pub fn stranger(dir: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !is_beside(&name) && name != "lost+found" {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether an entry of a data folder is ours, and can go with the cluster: what is beside the objects, the objects, and
/// what repairs and older versions left of them.
pub fn is_ours(name: &str) -> bool {
    is_beside(name) || name == OLD_JOURNAL || name.starts_with(FILE)
}

/// What may be in a folder before the objects are.
fn is_beside(name: &str) -> bool {
    let known = [
        "pki",
        "up.json",
        "up.log",
        "clock-ahead",
        "dashboard.key",
        "kubeconfig",
    ];
    known.contains(&name)
        || name.ends_with(".kubeconfig")
        || name.ends_with(".partial")
        || is_reserve(name)
}

/// Makes a database, complete or not at all: it gets its name last.
pub(super) fn create(path: &Path, rows: Vec<Row>, revision: u64) -> Result<Database, redb::Error> {
    let partial = private_file::beside(path, ".partial");
    let database = builder().create_file(private_file::create(&partial)?)?;
    let rows = rows.into_iter().map(|row| {
        let key = record::key_of(&row.table, &row.key);
        (key, Some((row.revision, Bytes::from(row.body))))
    });
    write(&database, rows, revision)?;
    private_file::replace(&partial, path)?;
    Ok(database)
}

/// Opens a file that is there and reads all that can be read of it. It is closed again if it is damaged.
pub(super) fn read_file(path: &Path) -> Result<(Option<Database>, Contents), String> {
    // redb expects what a crash leaves: at other damage it may panic.
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut database = open_file(path).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => "it is in use by another process".into(),
            error => format!("{FILE} is damaged or not ours: {error}; move it away to start empty"),
        })?;
        let mut contents = read(&database, path)?;
        if contents.damage.is_empty() {
            check_pages(&mut database, path, &mut contents);
        }
        let is_whole = contents.damage.is_empty();
        Ok((is_whole.then_some(database), contents))
    }));
    read.unwrap_or_else(|_| {
        Err(format!(
            "{FILE} is damaged beyond repair; move it away to start empty"
        ))
    })
}

/// Lets redb check its pages, which it also repairs. What was read before must still be there then.
fn check_pages(database: &mut Database, path: &Path, contents: &mut Contents) {
    let damage = match database.check_integrity() {
        Ok(true) => return,
        Ok(false) => match read(database, path) {
            Ok(again) if again.is(contents) => return,
            Ok(_) => "its last commit is not whole".to_owned(),
            Err(why) => why,
        },
        Err(error) => error.to_string(),
    };
    contents.damage.push(damage);
}

impl Contents {
    fn is(&self, other: &Contents) -> bool {
        (self.revision, self.rows.len()) == (other.revision, other.rows.len())
            && self.damage.is_empty()
    }
}

fn builder() -> redb::Builder {
    let mut builder = redb::Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_file(path: &Path) -> Result<Database, redb::DatabaseError> {
    drop(private_file::open(path)?);
    // By its name: a file that was handed over would be made a new database if it is empty, or zeros.
    builder().open(path)
}

fn read(database: &Database, path: &Path) -> Result<Contents, String> {
    let unreadable = |error: redb::Error| format!("{FILE} is damaged: {error}");
    let transaction = database
        .begin_read()
        .map_err(|error| unreadable(error.into()))?;
    let state = match transaction.open_table(STATE) {
        Ok(state) => state,
        Err(redb::TableError::TableDoesNotExist(_)) => return Err(earlier_version(path)),
        Err(error) => return Err(unreadable(error.into())),
    };
    let mut contents = Contents::default();
    match number(&state, "format") {
        Some(FORMAT) => {}
        Some(_) => {
            return Err(format!(
                "{FILE} was written by another version; this one reads format {FORMAT}"
            ));
        }
        None => contents.damage.push("its format cannot be read".to_owned()),
    }
    contents.revision = number(&state, "revision");
    if contents.revision.is_none() {
        contents
            .damage
            .push("its revision cannot be read".to_owned());
    }
    let objects = transaction
        .open_table(OBJECTS)
        .map_err(|error| unreadable(error.into()))?;
    read_objects(&objects, &mut contents).map_err(|error| unreadable(error.into()))?;
    Ok(contents)
}

fn number(state: &impl ReadableTable<&'static str, (u64, u32)>, name: &str) -> Option<u64> {
    let (number, sum) = state.get(name).ok()??.value();
    (sum == number_sum(name, number)).then_some(number)
}

fn number_sum(name: &str, number: u64) -> u32 {
    record::checksum(&[name.as_bytes(), &number.to_le_bytes()])
}

fn read_objects(
    objects: &impl ReadableTable<&'static [u8], &'static [u8]>,
    contents: &mut Contents,
) -> Result<(), redb::StorageError> {
    let count = objects.len()?;
    let mut entries = objects.iter()?;
    let mut seen = 0;
    // From both ends: a page that cannot be read hides only what is behind it.
    let mut stuck = 0;
    let mut backwards = false;
    while stuck < 2 {
        let next = if backwards {
            entries.next_back()
        } else {
            entries.next()
        };
        let (key, value) = match next {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                contents.damage.push(error.to_string());
                (stuck, backwards) = (stuck + 1, true);
                continue;
            }
            None => break,
        };
        seen += 1;
        match record::decode(key.value(), value.value()) {
            Some(row) => contents.rows.push(row),
            None => contents.damage.push(named(key.value())),
        }
    }
    if seen != count {
        let lost = format!("{count} objects were stored and {seen} are found");
        contents.damage.push(lost);
    }
    Ok(())
}

/// What a record would have been, as far as its key tells.
fn named(key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    let mut parts = key.splitn(3, '\0');
    let (group, plural) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let resource = match group {
        "" => plural.to_owned(),
        group => format!("{plural}.{group}"),
    };
    format!("{resource} {}", parts.next().unwrap_or(""))
        .escape_default()
        .to_string()
}

fn earlier_version(path: &Path) -> String {
    let files = match path.with_file_name(OLD_JOURNAL).exists() {
        true => format!("{FILE} and {OLD_JOURNAL} were"),
        false => format!("{FILE} was"),
    };
    format!(
        "{files} written by an earlier version, whose layout this one does not read. Start that version on it to save \
         what you need (kubectl get -o yaml), or choose an empty directory to start anew"
    )
}

/// A row to write: its key, and its revision and body, or nothing if it is gone.
pub(super) type Write = (String, Option<(u64, Bytes)>);

fn write(
    database: &Database,
    rows: impl Iterator<Item = Write>,
    revision: u64,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for (key, row) in rows {
            let key = key.as_bytes();
            let Some((revision, body)) = row else {
                objects.remove(key)?;
                continue;
            };
            let mut row = objects.insert_reserve(key, record::HEAD + body.len())?;
            record::encode(key, revision, &body, row.as_mut());
        }
        let mut state = transaction.open_table(STATE)?;
        for (name, number) in [("format", FORMAT), ("revision", revision)] {
            state.insert(name, (number, number_sum(name, number)))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

impl Data {
    /// Writes rows for good, all of them or none.
    pub(super) fn write(
        &mut self,
        rows: impl Iterator<Item = Write>,
        revision: u64,
    ) -> Result<(), redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => self.reopen()?,
        };
        write(&database, rows, revision)?;
        self.database = Some(database);
        self.revision = revision;
        Ok(())
    }

    /// Whether a commit works, which changes nothing.
    pub(super) fn probe(&mut self) -> Result<(), redb::Error> {
        self.write(std::iter::empty(), self.revision)
    }

    pub(super) fn reserve(&self) -> Reserve {
        Reserve::beside(&self.path)
    }

    /// After a failure. What failed was undone in memory, so it must not be in the file either.
    fn reopen(&self) -> Result<Database, redb::Error> {
        let database = open_file(&self.path)?;
        let transaction = database.begin_read()?;
        let found = number(&transaction.open_table(STATE)?, "revision");
        if found != Some(self.revision) {
            let why = "a write that failed is on the disk after all; restart the server";
            return Err(io::Error::other(why).into());
        }
        Ok(database)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;
    use serde_json::json;

    /// Names and lengths of what a server finds that is started after this one was killed now.
    fn found_after_kill(dir: &Path) -> Vec<(String, usize)> {
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(dir.join(FILE), copy.path().join(FILE)).unwrap();
        let rows = open(copy.path()).unwrap().rows.into_iter();
        rows.map(|row| (row.key, row.body.len())).collect()
    }

    #[tokio::test]
    async fn what_is_durable_is_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let kind = crate::kinds::find("", "ConfigMap").expect("it is built in");
        let store = Store::on_disk(open(dir.path()).unwrap(), 100, |_| Some(kind.clone()));
        let put = async |name: &str, length: usize| {
            let value = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(length)}});
            let written: Result<_, ()> =
                store.write(|transaction| Ok(transaction.put(kind, name, &value, None)));
            let (object, revision) = written.unwrap();
            store.durable(revision).await.unwrap();
            (name.to_owned(), object.body_len())
        };
        let (one, other) = (put("changed", 10).await, put("removed", 10).await);
        assert_eq!(found_after_kill(dir.path()), [one, other]);
        let changed = put("changed", 20).await;
        let large = put("large", 5_000_000).await;
        let removed: Result<_, ()> =
            store.write(|transaction| Ok(transaction.remove(kind, "removed")));
        store.durable(removed.unwrap().1).await.unwrap();
        let later = put("later", 10).await;
        let expected = [changed, large, later];
        assert_eq!(found_after_kill(dir.path()), expected);
        drop(store);
        assert_eq!(found_after_kill(dir.path()), expected);
    }

    #[test]
    fn a_commit_that_failed_and_is_on_the_disk_after_all_stops_writes() {
        let dir = tempfile::tempdir().unwrap();
        let mut data = open(dir.path()).unwrap().data;
        data.write(std::iter::empty(), 5).unwrap();
        // As if that commit had been told as failed.
        (data.database, data.revision) = (None, 1);
        let refused = data.write(std::iter::empty(), 6).unwrap_err().to_string();
        assert!(refused.contains("restart the server"), "{refused}");
        data.revision = 5;
        data.write(std::iter::empty(), 6).unwrap();
    }
}
