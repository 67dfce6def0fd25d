//! Indexes of an indexed job: sets of them as the status writes them (`1,3-5,7`), and the one that a
//! pod works on.

use std::fmt;

use api::kinds::{JOB_COMPLETION_INDEX, Job, Pod};

/// A set of indexes, as ordered spans that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<Span>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u32,
    last: u32,
}

impl Indexes {
    /// Reads what a status or a policy says; what lies beyond `count`, or makes no sense, is left out.
    pub fn parse(text: &str, count: u32) -> Indexes {
        let mut spans: Vec<Span> = Vec::new();
        for part in text.split(',') {
            let mut ends = part.split('-').map(str::parse::<i64>);
            let Some(Ok(first)) = ends.next() else {
                continue;
            };
            if first >= count.into() {
                break;
            }
            let last = match ends.next() {
                None => first,
                Some(Ok(last)) => last.min(i64::from(count) - 1),
                Some(Err(_)) => continue,
            };
            let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) else {
                continue;
            };
            match spans.last_mut() {
                _ if last < first => {}
                Some(before) if before.last.checked_add(1) == Some(first) => before.last = last,
                _ => spans.push(Span { first, last }),
            }
        }
        Indexes(spans)
    }

    /// Those of `indexes`, which come in order.
    pub fn of(indexes: impl IntoIterator<Item = u32>) -> Indexes {
        let one = |index| Span {
            first: index,
            last: index,
        };
        Indexes::joined(indexes.into_iter().map(one))
    }

    pub fn merge(&self, other: &Indexes) -> Indexes {
        let mut spans: Vec<Span> = self.0.iter().chain(&other.0).copied().collect();
        spans.sort_by_key(|span| span.first);
        Indexes::joined(spans)
    }

    /// Spans in order of their beginning; those that touch become one.
    fn joined(spans: impl IntoIterator<Item = Span>) -> Indexes {
        let mut joined: Vec<Span> = Vec::new();
        for span in spans {
            match joined.last_mut() {
                Some(before) if span.first <= before.last.saturating_add(1) => {
                    before.last = before.last.max(span.last);
                }
                _ => joined.push(span),
            }
        }
        Indexes(joined)
    }

    pub fn len(&self) -> u32 {
        self.0.iter().map(|span| span.last - span.first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, index: u32) -> bool {
        let at = self.0.partition_point(|span| span.last < index);
        self.0.get(at).is_some_and(|span| span.first <= index)
    }

    /// How many are in both.
    pub fn overlap(&self, other: &Indexes) -> u32 {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = 0;
        while let (Some(one), Some(two)) = (mine.peek(), theirs.peek()) {
            let (first, last) = (one.first.max(two.first), one.last.min(two.last));
            common += (last + 1).saturating_sub(first);
            if one.last < two.last {
                mine.next();
            } else {
                theirs.next();
            }
        }
        common
    }

    /// The first `wanted` indexes below `count` that are not here.
    pub fn first_missing(&self, wanted: usize, count: u32) -> Vec<u32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        let end = Span {
            first: count,
            last: count,
        };
        for span in self.0.iter().chain([&end]) {
            let room = wanted - missing.len();
            missing.extend((candidate..span.first.min(count)).take(room));
            candidate = candidate.max(span.last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Span { first, last }) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The index that a pod says it works on.
pub fn completion_index(pod: &Pod) -> Option<u32> {
    pod.metadata
        .annotation(JOB_COMPLETION_INDEX)?
        .parse()
        .ok()
        .filter(|index| i32::try_from(*index).is_ok())
}

/// The same, if the job has such an index.
pub fn valid_index(job: &Job, pod: &Pod) -> Option<u32> {
    completion_index(pod).filter(|index| *index < job.index_count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, count: u32) -> Indexes {
        Indexes::parse(text, count)
    }

    // Upstream: TestParseIndexesFromString, TestCalculateSucceededIndexes (printing).
    #[test]
    fn reads_what_it_prints_and_forgives_what_it_cannot_read() {
        for (text, count, expected) in [
            ("", 10, ""),
            ("0", 10, "0"),
            ("1,3-5,7", 10, "1,3-5,7"),
            ("0,1,2", 10, "0-2"),
            ("0-1", 10, "0,1"),
            ("4,5", 10, "4,5"),
            ("1-3,4", 10, "1-4"),
            ("2-8", 5, "2-4"),
            ("1,7,8", 5, "1"),
            ("x,3", 10, "3"),
            ("1-x,3", 10, "3"),
            ("-5,3", 10, "3"),
            ("5-3,7", 10, "7"),
            ("99999999999999999999,3", 10, "3"),
        ] {
            assert_eq!(parsed(text, count).to_string(), expected, "{text}");
        }
    }

    // Upstream: TestIsIndexIncluded (orderedIntervals.has), TestOrderedIntervals merging.
    #[test]
    fn sets_behave_as_sets() {
        let set = parsed("1,3-5,9", 20);
        let held: Vec<u32> = (0..12).filter(|index| set.contains(*index)).collect();
        assert_eq!((held, set.len()), (vec![1, 3, 4, 5, 9], 5));
        let merged = |a, b| parsed(a, 50).merge(&parsed(b, 50)).to_string();
        assert_eq!(merged("1,3-5", "2,6"), "1-6");
        assert_eq!(merged("", "2,6"), "2,6");
        assert_eq!(merged("0-10", "3-4,20"), "0-10,20");
        assert_eq!(merged("5-7", "0-2,6-9"), "0-2,5-9");
        assert_eq!(Indexes::of([0, 1, 2, 5]).to_string(), "0-2,5");
        let overlap = |a, b| parsed(a, 50).overlap(&parsed(b, 50));
        assert_eq!(overlap("0-4,8", "3-9"), 3);
        assert_eq!(overlap("0-4", "5-9"), 0);
        assert_eq!(overlap("0,2,4,6", "2-4,6"), 3);
    }

    // Upstream: TestFirstPendingIndexes.
    #[test]
    fn the_lowest_free_indexes_come_first() {
        let missing = |text, wanted, count| parsed(text, 100).first_missing(wanted, count);
        assert_eq!(missing("", 3, 5), [0, 1, 2]);
        assert_eq!(missing("", 9, 3), [0, 1, 2]);
        assert_eq!(missing("0-2,4", 3, 10), [3, 5, 6]);
        assert_eq!(missing("1,3", 2, 4), [0, 2]);
        assert_eq!(missing("0-9", 2, 5), [] as [u32; 0]);
        assert_eq!(missing("1", 0, 5), [] as [u32; 0]);
    }
}
