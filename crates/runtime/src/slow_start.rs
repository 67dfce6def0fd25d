//! Do a thing many times, carefully: 1, then 2, then 4 … at once, and stop at the first batch in
//! which one fails. A template that the API server refuses then costs one request, not five hundred.

use std::future::Future;

use futures_util::future::join_all;

/// No more than this many at once, however well it goes; upstream's `MaxBatchSize`.
const BATCH_MAX: usize = 500;

/// What came of it: per item that was tried, in order; items after a failed batch were not tried.
pub struct Attempts<T, E> {
    pub tried: Vec<Result<T, E>>,
    pub skipped: usize,
}

/// Runs `act(0)` to `act(count - 1)` in batches that double in size.
pub async fn slow_start<T, E, F>(count: usize, act: impl Fn(usize) -> F) -> Attempts<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut tried = Vec::with_capacity(count);
    let mut batch = 1;
    while tried.len() < count {
        let start = tried.len();
        let end = count.min(start + batch);
        tried.extend(join_all((start..end).map(&act)).await);
        if tried[start..].iter().any(Result::is_err) {
            break;
        }
        batch = (batch * 2).min(BATCH_MAX);
    }
    Attempts {
        skipped: count - tried.len(),
        tried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[tokio::test]
    async fn a_batch_has_a_bound() {
        let (under_way, most) = (Cell::new(0), Cell::new(0));
        let attempts = slow_start(3000, |_| async {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            tokio::task::yield_now().await;
            under_way.set(under_way.get() - 1);
            Ok::<(), ()>(())
        })
        .await;
        assert_eq!((attempts.tried.len(), most.get()), (3000, 500));
    }

    // Upstream: TestSlowStartBatch.
    #[tokio::test]
    async fn doubles_and_stops_after_a_failing_batch() {
        for (count, fails_at, expected_tried) in [
            (0, None, 0),
            (1, None, 1),
            (10, None, 10),
            (10, Some(0), 1),
            (10, Some(1), 3),
            (10, Some(6), 7),
            (10, Some(7), 10),
        ] {
            let calls = RefCell::new(Vec::new());
            let attempts = slow_start(count, |index| {
                calls.borrow_mut().push(index);
                async move {
                    if fails_at == Some(index) {
                        Err(index)
                    } else {
                        Ok(index)
                    }
                }
            })
            .await;
            assert_eq!(attempts.tried.len(), expected_tried, "{count} {fails_at:?}");
            assert_eq!(attempts.skipped, count - expected_tried);
            assert_eq!(calls.into_inner(), (0..expected_tried).collect::<Vec<_>>());
        }
    }
}
