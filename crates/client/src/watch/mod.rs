//! A watch: the server's stream of JSON lines, or of protobuf messages, as a stream of events.

mod event;
mod frames;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use http_body::Body as _;
use tokio::time::Sleep;

pub use event::WatchEvent;

use self::frames::{Frames, MAX_FRAME_BYTES};
use crate::{Body, Encoding, Error};

/// The events of a watch in the order the server sent them. It ends when the server closes the stream; after
/// an `Err` or a [`WatchEvent::Error`] nothing follows. Events are parsed as they are polled, so a slow
/// reader holds back the server instead of filling memory.
pub struct WatchStream {
    state: State,
    frames: Frames,
    encoding: Encoding,
    request: String,
    /// When to stop waiting for a server that was told to end the stream and did not.
    deadline: Option<Pin<Box<Sleep>>>,
}

enum State {
    Open(Body),
    /// The server is done; what is left in the buffer is still to be looked at.
    Draining,
    Ended,
}

/// How much longer than asked for a server may keep a watch open before we take it for dead.
const TIMEOUT_GRACE: Duration = Duration::from_secs(30);

impl WatchStream {
    pub(crate) fn new(
        body: Body,
        encoding: Encoding,
        request: String,
        timeout_seconds: Option<u32>,
    ) -> WatchStream {
        let deadline = timeout_seconds.map(|seconds| {
            let limit = Duration::from_secs(u64::from(seconds)) + TIMEOUT_GRACE;
            Box::pin(tokio::time::sleep(limit))
        });
        WatchStream {
            state: State::Open(body),
            frames: Frames::of(encoding),
            encoding,
            request,
            deadline,
        }
    }

    /// What the objects of this stream are written in.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent, Error>>> {
        loop {
            match self.frames.next() {
                Some(Ok(frame)) => {
                    return Poll::Ready(Some(match self.encoding {
                        Encoding::Json => event::parse_line(&frame, &self.request),
                        Encoding::Protobuf => event::parse_message(&frame, &self.request),
                    }));
                }
                Some(Err(_)) => {
                    let error = Error::TooLarge {
                        request: self.request.clone(),
                        limit: MAX_FRAME_BYTES,
                    };
                    return Poll::Ready(Some(Err(error)));
                }
                None => {}
            }
            let State::Open(body) = &mut self.state else {
                return Poll::Ready(self.last_event());
            };
            if let Some(deadline) = &mut self.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                tracing::debug!(
                    request = self.request,
                    "the server did not end the watch in time"
                );
                return Poll::Ready(None);
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.frames.push(chunk);
                    }
                }
                Some(Err(source)) => {
                    return Poll::Ready(Some(Err(Error::transport(&self.request, source))));
                }
                None => self.state = State::Draining,
            }
        }
    }

    /// Some servers omit the newline of the last event; an event cut in the middle is a transport error.
    fn last_event(&mut self) -> Option<Result<WatchEvent, Error>> {
        let rest = self.frames.take_rest()?;
        let last = match self.encoding {
            Encoding::Json => event::parse(&rest, &self.request).ok(),
            Encoding::Protobuf => None,
        };
        Some(last.ok_or_else(|| {
            Error::transport(
                &self.request,
                "the watch broke off in the middle of an event",
            )
        }))
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if matches!(this.state, State::Ended) {
            return Poll::Ready(None);
        }
        let event = ready!(this.poll_event(cx));
        if matches!(event, None | Some(Err(_) | Ok(WatchEvent::Error(_)))) {
            // Dropping the body closes the stream on the server's side as well.
            this.state = State::Ended;
            this.deadline = None;
        }
        Poll::Ready(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use expect_test::{Expect, expect};
    use futures_util::StreamExt;
    use http_body_util::{BodyExt, StreamBody};

    fn stream(chunks: Vec<Result<&'static str, &'static str>>) -> WatchStream {
        let chunks = chunks.into_iter().map(|chunk| match chunk {
            Ok(text) => Ok(http_body::Frame::data(Bytes::from(text))),
            Err(text) => Err(text.into()),
        });
        let body = StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync();
        WatchStream::new(body, Encoding::Json, "WATCH /api/v1/pods".to_owned(), None)
    }

    async fn check(chunks: Vec<Result<&'static str, &'static str>>, expected: Expect) {
        let mut stream = stream(chunks);
        let mut lines = String::new();
        while let Some(event) = stream.next().await {
            let line = match event {
                Ok(event) => format!("{event:?}"),
                Err(error) => crate::describe(&error),
            };
            lines.push_str(&line);
            lines.push('\n');
        }
        assert!(stream.next().await.is_none(), "an event after the end");
        expected.assert_eq(&lines);
    }

    #[tokio::test]
    async fn events_come_in_order() {
        let chunks = vec![
            Ok("{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"MODI"),
            Ok("FIED\",\"object\":{\"a\":2}}\n{\"object\":{\"a\":3},\"type\":\"DELETED\"}"),
            Ok("\n"),
        ];
        check(
            chunks,
            expect![[r#"
                Added(b"{\"a\":1}")
                Modified(b"{\"a\":2}")
                Deleted(b"{\"a\":3}")
            "#]],
        )
        .await;
    }

    /// What kube-apiserver 1.36 sent for one pod, and for a revision that it had forgotten.
    #[tokio::test]
    async fn a_stream_of_protobuf_is_the_same_to_its_reader() {
        const STREAM: &[u8] = include_bytes!("testdata/pods.pb");
        for chunk_size in [1, 7, 1000, STREAM.len()] {
            let chunks = STREAM
                .chunks(chunk_size)
                .map(|chunk| Ok(http_body::Frame::data(Bytes::from_static(chunk))));
            let body = StreamBody::new(futures_util::stream::iter(chunks)).boxed_unsync();
            let stream = WatchStream::new(body, Encoding::Protobuf, "WATCH /".to_owned(), None);
            let events: Vec<_> = stream.map(Result::unwrap).collect().await;
            let [
                WatchEvent::Added(pod),
                WatchEvent::Bookmark {
                    resource_version: 36934,
                    initial_events_end: true,
                },
                WatchEvent::Error(error),
            ] = &events[..]
            else {
                panic!("{events:?}");
            };
            let pod = <api::kinds::Pod as api::Resource>::decode_protobuf(pod).unwrap();
            assert_eq!(&*pod.metadata.name, "web-0");
            assert!(error.is_gone());
        }
    }

    #[tokio::test]
    async fn a_bookmark_may_end_the_initial_events() {
        let chunks = vec![
            Ok(
                "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"7\"}}}\n",
            ),
            Ok(
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n",
            ),
        ];
        check(
            chunks,
            expect![[r#"
                Bookmark { resource_version: 7, initial_events_end: false }
                Bookmark { resource_version: 8, initial_events_end: true }
            "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn an_error_in_the_stream_ends_it() {
        let expired = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n";
        let mut stream = stream(vec![
            Ok(expired),
            Ok("{\"type\":\"ADDED\",\"object\":{}}\n"),
        ]);
        let Some(Ok(WatchEvent::Error(error))) = stream.next().await else {
            panic!("no error event")
        };
        assert!(error.is_gone());
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn cut_in_the_middle_is_a_transport_error() {
        check(
            vec![Ok("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"obj")],
            expect![[r#"
                Added(b"{}")
                WATCH /api/v1/pods got no complete answer from the API server: the watch broke off in the middle of an event
            "#]],
        )
        .await;
        check(
            vec![
                Ok("{\"type\":\"ADDED\",\"object\":{}}\n"),
                Err("connection reset"),
            ],
            expect![[r#"
                Added(b"{}")
                WATCH /api/v1/pods got no complete answer from the API server: connection reset
            "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn a_last_event_without_newline_counts() {
        check(
            vec![Ok("{\"type\":\"ADDED\",\"object\":{}}")],
            expect![[r#"
                Added(b"{}")
            "#]],
        )
        .await;
    }

    #[tokio::test]
    async fn garbage_is_reported_once() {
        check(
            vec![Ok("<html>\n<body>\n")],
            expect![[r#"
                WATCH /api/v1/pods was answered with something that is not a Kubernetes API object: "<html>": expected value at line 1 column 1
            "#]],
        )
        .await;
        check(
            vec![Ok("{\"type\":\"RENAMED\",\"object\":{}}\n")],
            expect![[r#"
                WATCH /api/v1/pods was answered with something that is not a Kubernetes API object: "{\"type\":\"RENAMED\",\"object\":{}}": unknown watch event type RENAMED
            "#]],
        )
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_forgets_to_end_the_watch_is_left() {
        let body = StreamBody::new(futures_util::stream::pending()).boxed_unsync();
        let mut stream = WatchStream::new(body, Encoding::Json, "WATCH /".to_owned(), Some(300));
        let started = tokio::time::Instant::now();
        assert!(stream.next().await.is_none());
        assert_eq!(started.elapsed().as_secs(), 330);
    }

    /// Whatever a server sends, in whatever pieces: the stream ends, and nothing panics.
    #[tokio::test]
    async fn any_bytes_in_any_chunks_come_to_an_end() {
        const ALPHABET: &[&[u8]] = &[
            b"{\"type\":\"ADDED\",\"object\":{",
            b"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"",
            b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"",
            b"\"",
            b"}",
            b"}}",
            b"\n",
            b"\r\n",
            b"1",
            b"\xff",
            b"\xc3",
            b"\xa9",
            b"\0",
            b"\\u12",
            b"[",
            b"null",
            b",",
            b":",
            b"\0\0\0\x05\x12\x03\n\x01x",
            b"k8s\0",
        ];
        for seed in 0..2000 {
            let rng = api::Rng::from_seed(seed);
            let text: Vec<u8> = (0..rng.below(30))
                .flat_map(|_| ALPHABET[rng.below(ALPHABET.len())].to_vec())
                .collect();
            let chunk_size = 1 + rng.below(20);
            let chunks: Vec<_> = text
                .chunks(chunk_size)
                .map(Bytes::copy_from_slice)
                .collect();
            let frames = chunks
                .into_iter()
                .map(|chunk| Ok(http_body::Frame::data(chunk)));
            let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
            let encoding = [Encoding::Json, Encoding::Protobuf][seed as usize % 2];
            let stream = WatchStream::new(body, encoding, "WATCH /".to_owned(), None);
            let events: Vec<_> = stream.collect().await;
            assert!(
                events.len() <= text.len(),
                "seed {seed}: more events than bytes"
            );
        }
    }
}
