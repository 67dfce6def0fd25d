//! What was committed since the database was last written.
//!
//! A database writes whole pages of a tree, and its own bookkeeping, for every commit. So a commit only appends
//! what changed to this file, in one write, and the database gets it later, with thousands of others. What the
//! database does not have yet is read from here when a data directory is opened.
//!
//! Records are written from the start of the file to its end, and then again from the start, once the database has
//! them. Each says on which state of the database it builds, so that those of an earlier round are told from those
//! that count.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) const FILE: &str = "steersman.journal";

/// How the file begins; what follows is read by no other program.
const TITLE: &[u8] = b"steersman journal 1\n";

/// Records begin at multiples of it: a write that power loss cuts in two damages no sector of an earlier one.
const BLOCK: u64 = 4096;

/// The file grows to this. A pod that is created takes 3 KB: the database is written after 5,000 of them, and there
/// is as much to read at most after a crash.
const CAPACITY: u64 = 16 * 1024 * 1024;

/// How much it grows at a time. Making a file longer takes the file system more than writing to it.
const GROWTH: u64 = 1024 * 1024;

/// What is longer is of little use here: it costs the database no more than others do.
const RECORD_MAX: usize = 4 * 1024 * 1024;

/// Begins a record. It cannot be in any object, because it is no text.
const MARK: [u8; 8] = *b"\xff\xfebatch\xff";

/// The mark, the checksum of what follows it, the length of the rows, the revision of the database that the record
/// builds on, the revision of the record.
const HEAD: usize = 40;

/// A body of that length is none: the object was removed.
const REMOVED: u32 = u32::MAX;

/// One object, by its key in the database, as it is from now on.
pub(super) struct Row<'a> {
    pub(super) key: &'a str,
    pub(super) revision: u64,
    /// Nothing if it was removed.
    pub(super) body: Option<&'a [u8]>,
}

pub(super) struct Journal {
    file: File,
    length: u64,
    /// Where the next record goes.
    end: u64,
    /// The revision of the database that all records build on.
    base: u64,
    record: Vec<u8>,
}

impl Journal {
    /// A new file, or an empty one in place of what is there.
    pub(super) fn create(path: &Path, base: u64) -> io::Result<Journal> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(path)?;
        file.write_all_at(TITLE, 0)?;
        file.set_len(BLOCK)?;
        file.sync_all()?;
        Ok(Journal::at_start(file, BLOCK, base))
    }

    /// Opens what a database at revision `base` left, and shows every row that it does not have; also the last
    /// revision. Refuses what does not belong to it.
    pub(super) fn open(
        path: &Path,
        base: u64,
        mut each: impl FnMut(Row<'_>),
    ) -> Result<(Journal, u64), String> {
        let unreadable = |why: io::Error| format!("{FILE} cannot be read: {why}");
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut title = [0; TITLE.len()];
        if length < BLOCK || file.read_exact_at(&mut title, 0).is_err() || title != *TITLE {
            return Err(format!("{FILE} is damaged or not ours"));
        }
        let mut journal = Journal::at_start(file, length, base);
        let mut last = base;
        while let Some(head) = journal.head(journal.end).map_err(unreadable)? {
            let Some(rows) = journal.rows(&head).map_err(unreadable)? else {
                break;
            };
            if head.base < base && head.revision <= base {
                // Of an earlier round.
                break;
            }
            if head.base != base || head.revision <= last {
                return Err(format!("{FILE} does not belong to the database beside it"));
            }
            each_row(rows, &mut each).ok_or_else(|| format!("{FILE} is damaged"))?;
            last = head.revision;
            journal.end = head.end();
        }
        journal.check_rest(last).map_err(unreadable)?;
        Ok((journal, last))
    }

    fn at_start(file: File, length: u64, base: u64) -> Journal {
        Journal {
            file,
            length,
            end: BLOCK,
            base,
            record: Vec::new(),
        }
    }

    /// Whether nothing is in it that the database does not have.
    pub(super) fn is_empty(&self) -> bool {
        self.end == BLOCK
    }

    /// The database has everything now.
    pub(super) fn restart(&mut self, base: u64) {
        (self.end, self.base) = (BLOCK, base);
    }

    /// Adds rows that are to survive a crash, up to a revision. Adds nothing, and says so, if there is no room.
    pub(super) fn append<'a>(
        &mut self,
        rows: impl Iterator<Item = Row<'a>>,
        revision: u64,
    ) -> io::Result<bool> {
        self.record.clear();
        self.record.resize(HEAD, 0);
        for row in rows {
            let size = row.key.len() + row.body.map_or(0, <[u8]>::len);
            if self.record.len() + size > RECORD_MAX {
                self.record = Vec::new();
                return Ok(false);
            }
            self.add(&row);
        }
        let length = (self.record.len() - HEAD) as u64;
        for (place, number) in [(16, length), (24, self.base), (32, revision)] {
            self.record[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&self.record[16..]);
        self.record[..8].copy_from_slice(&MARK);
        self.record[8..16].copy_from_slice(&sum.to_le_bytes());
        let end = (self.end + self.record.len() as u64).next_multiple_of(BLOCK);
        if !self.reaches(end) {
            return Ok(false);
        }
        self.file.write_all_at(&self.record, self.end)?;
        self.file.sync_data()?;
        self.end = end;
        Ok(true)
    }

    fn add(&mut self, row: &Row<'_>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("it is within RECORD_MAX");
        let body = row.body.unwrap_or_default();
        let (key_length, body_length) =
            (length(row.key.as_bytes()), row.body.map_or(REMOVED, length));
        self.record.extend_from_slice(&key_length.to_le_bytes());
        self.record.extend_from_slice(&body_length.to_le_bytes());
        self.record.extend_from_slice(&row.revision.to_le_bytes());
        self.record.extend_from_slice(row.key.as_bytes());
        self.record.extend_from_slice(body);
    }

    /// Makes the file long enough, if it may and can be: on a full disk the database may still have room.
    fn reaches(&mut self, end: u64) -> bool {
        if end > CAPACITY {
            return false;
        }
        if end > self.length {
            let length = end.next_multiple_of(GROWTH);
            if self.file.set_len(length).is_err() {
                return false;
            }
            self.length = length;
        }
        true
    }

    /// The head of a record, if there is one.
    fn head(&self, place: u64) -> io::Result<Option<Head>> {
        let mut bytes = [0; HEAD];
        if place + HEAD as u64 > self.length {
            return Ok(None);
        }
        self.file.read_exact_at(&mut bytes, place)?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        let head = Head {
            place,
            sum: number(8),
            length: number(16),
            base: number(24),
            revision: number(32),
        };
        let room = self.length - place - HEAD as u64;
        Ok((bytes[..8] == MARK && head.length <= room.min(RECORD_MAX as u64)).then_some(head))
    }

    /// The rows of a record, if it was written to its end.
    fn rows(&mut self, head: &Head) -> io::Result<Option<&[u8]>> {
        self.record.clear();
        self.record.resize(HEAD - 16 + head.length as usize, 0);
        self.file.read_exact_at(&mut self.record, head.place + 16)?;
        Ok((checksum(&self.record) == head.sum).then_some(&self.record[HEAD - 16..]))
    }

    /// Each record was complete before the next one was begun: where one is missing, none can follow.
    fn check_rest(&mut self, last: u64) -> io::Result<()> {
        let mut place = self.end + BLOCK;
        while place < self.length {
            if let Some(head) = self.head(place)?
                && head.base == self.base
                && head.revision > last
                && self.rows(&head)?.is_some()
            {
                let why = "a part of it is damaged";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            place += BLOCK;
        }
        Ok(())
    }
}

struct Head {
    place: u64,
    sum: u64,
    length: u64,
    base: u64,
    revision: u64,
}

impl Head {
    /// Where the next record begins.
    fn end(&self) -> u64 {
        (self.place + HEAD as u64 + self.length).next_multiple_of(BLOCK)
    }
}

/// Nothing if the bytes are no rows.
fn each_row(mut bytes: &[u8], each: &mut impl FnMut(Row<'_>)) -> Option<()> {
    let number = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
    while !bytes.is_empty() {
        let (key_length, rest) = bytes.split_first_chunk()?;
        let (body_length, rest) = rest.split_first_chunk()?;
        let (revision, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(number(*key_length) as usize)?;
        let (body, rest) = match number(*body_length) {
            REMOVED => (None, rest),
            length => {
                let (body, rest) = rest.split_at_checked(length as usize)?;
                (Some(body), rest)
            }
        };
        each(Row {
            key: str::from_utf8(key).ok()?,
            revision: u64::from_le_bytes(*revision),
            body,
        });
        bytes = rest;
    }
    Some(())
}

/// Tells a record that was written to its end from one that was not. Four sums side by side, because each step of one
/// has to wait for the step before.
fn checksum(bytes: &[u8]) -> u64 {
    /// Odd, with bits all over: a multiplication carries every bit into those above it.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [1, 2, 3, bytes.len() as u64];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = step(*sum, u64::from_le_bytes(*word));
        }
    }
    let rest = rest.iter().map(|byte| u64::from(*byte));
    let sum = rest.chain(sums).fold(0, step);
    sum ^ sum >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let name = format!("steersman-journal-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Dir(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join(FILE)
        }

        /// What a database at that revision would be told, or why not.
        fn told(&self, base: u64) -> String {
            let mut told = String::new();
            let opened = Journal::open(&self.file(), base, |row| {
                let body = row.body.map_or("gone".into(), String::from_utf8_lossy);
                told.push_str(&format!("{}@{}={body} ", row.key, row.revision));
            });
            match opened {
                Ok((_, last)) => format!("{told}last {last}"),
                Err(why) => why,
            }
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn add(journal: &mut Journal, key: &str, revision: u64, body: Option<&str>) -> bool {
        let body = body.map(str::as_bytes);
        let row = Row {
            key,
            revision,
            body,
        };
        journal.append([row].into_iter(), revision).unwrap()
    }

    #[test]
    fn what_the_database_has_not_is_told_once() {
        let dir = Dir::new("told");
        let mut journal = Journal::create(&dir.file(), 7).unwrap();
        assert!(journal.is_empty());
        assert_eq!(dir.told(7), "last 7");
        add(&mut journal, "a", 8, Some("one"));
        add(&mut journal, "b", 9, Some(&"x".repeat(5000)));
        add(&mut journal, "a", 10, None);
        let long = "x".repeat(5000);
        assert_eq!(dir.told(7), format!("a@8=one b@9={long} a@10=gone last 10"));
        assert_eq!(dir.told(10), "last 10", "the database has them");
        journal.restart(10);
        add(&mut journal, "c", 11, Some("new"));
        assert_eq!(dir.told(10), "c@11=new last 11", "not those of before");
        // A journal that is opened goes on where it ended.
        let (mut journal, _) = Journal::open(&dir.file(), 10, |_| {}).unwrap();
        add(&mut journal, "d", 12, Some("newer"));
        assert_eq!(dir.told(10), "c@11=new d@12=newer last 12");
    }

    #[test]
    fn a_record_that_was_cut_short_is_none_and_a_hole_is_damage() {
        let dir = Dir::new("torn");
        let mut journal = Journal::create(&dir.file(), 1).unwrap();
        for revision in 2..5 {
            add(&mut journal, "a", revision, Some("text"));
        }
        let whole = std::fs::read(dir.file()).unwrap();
        let damage = |record: usize| {
            let mut bytes = whole.clone();
            bytes[record * BLOCK as usize + HEAD + 20] ^= 1;
            std::fs::write(dir.file(), bytes).unwrap();
        };
        damage(3);
        assert_eq!(dir.told(1), "a@2=text a@3=text last 3");
        damage(2);
        assert!(dir.told(1).contains("damaged"));
        damage(1);
        assert!(dir.told(1).contains("damaged"));
    }

    #[test]
    fn what_belongs_to_another_database_is_refused() {
        let dir = Dir::new("other");
        let mut journal = Journal::create(&dir.file(), 5).unwrap();
        add(&mut journal, "a", 9, Some("text"));
        for base in [1, 6] {
            assert!(dir.told(base).contains("does not belong"), "{base}");
        }
        std::fs::write(dir.file(), vec![b'x'; 10_000]).unwrap();
        assert!(dir.told(5).contains("not ours"));
        std::fs::remove_file(dir.file()).unwrap();
        assert!(dir.told(5).contains("cannot be read"));
    }

    #[test]
    fn it_is_full_at_some_time() {
        let dir = Dir::new("full");
        let mut journal = Journal::create(&dir.file(), 1).unwrap();
        let body = "x".repeat(RECORD_MAX / 2);
        let mut revision = 2;
        while add(&mut journal, "a", revision, Some(&body)) {
            revision += 1;
        }
        let length = std::fs::metadata(dir.file()).unwrap().len();
        assert!(length <= CAPACITY && length > CAPACITY - 2 * BODY_AND_MORE);
        journal.restart(revision);
        assert!(!add(&mut journal, "a", revision + 1, Some(&body.repeat(2))));
        assert!(add(&mut journal, "a", revision + 1, Some(&body)));
    }

    const BODY_AND_MORE: u64 = RECORD_MAX as u64 / 2 + 2 * GROWTH;

    #[test]
    fn every_byte_counts_for_the_checksum() {
        let bytes: Vec<u8> = (0..77).collect();
        let sum = checksum(&bytes);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[place] ^= 1 << bit;
                assert_ne!(checksum(&other), sum, "{place}");
            }
            assert_ne!(checksum(&bytes[..place]), sum);
        }
        assert_ne!(checksum(&[0; 32]), checksum(&[0; 64]));
    }
}
