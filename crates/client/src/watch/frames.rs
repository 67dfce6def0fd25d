//! Cutting a byte stream into events, however the network chunks it.

use bytes::{Bytes, BytesMut};

use crate::Encoding;

/// What one event may weigh.
// UPSTREAM: client-go's stream decoder refuses larger ones too; etcd refuses objects a tenth as large.
pub(crate) const MAX_FRAME_BYTES: usize = 16 << 20;

/// Frames of JSON end with a newline (which may come along: it is white space), and that is never part of a multi-byte
/// character, so chunks may be cut anywhere. Frames of protobuf begin with their length, four bytes. A frame that arrives
/// in one chunk is not copied.
#[derive(Default)]
pub(crate) struct Frames {
    encoding: Encoding,
    /// The beginning of a frame whose end has not come yet.
    partial: BytesMut,
    chunk: Bytes,
}

/// The length before each protobuf frame, the most significant byte first.
const LENGTH_BYTES: usize = 4;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrameTooLarge;

impl Frames {
    pub(crate) fn of(encoding: Encoding) -> Frames {
        Frames {
            encoding,
            ..Frames::default()
        }
    }

    /// Takes the next chunk. The one before must have been drained by [`Frames::next`].
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the previous chunk was not drained");
        self.chunk = chunk;
    }

    /// The next whole frame; `None` asks for another chunk.
    pub(crate) fn next(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        match self.encoding {
            Encoding::Json => self.next_line(),
            Encoding::Protobuf => self.next_measured(),
        }
    }

    fn next_measured(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        if self.partial.is_empty()
            && let Some(length) = length_of(&self.chunk)
            && self.chunk.len() - LENGTH_BYTES >= length
        {
            let _length = self.chunk.split_to(LENGTH_BYTES);
            return Some(Ok(self.chunk.split_to(length)));
        }
        // Cut somewhere: first the length is put together, then the frame.
        self.gather(LENGTH_BYTES);
        let length = length_of(&self.partial)?;
        if length > MAX_FRAME_BYTES {
            return Some(Err(FrameTooLarge));
        }
        self.gather(LENGTH_BYTES + length);
        if self.partial.len() < LENGTH_BYTES + length {
            return None;
        }
        let mut frame = self.partial.split().freeze();
        let _length = frame.split_to(LENGTH_BYTES);
        Some(Ok(frame))
    }

    /// Moves bytes from the chunk until `wanted` have come together, or the chunk is empty.
    fn gather(&mut self, wanted: usize) {
        let missing = wanted.saturating_sub(self.partial.len());
        let part = self.chunk.split_to(missing.min(self.chunk.len()));
        self.partial.extend_from_slice(&part);
    }

    fn next_line(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        loop {
            if self.chunk.is_empty() {
                return None;
            }
            let newline = memchr::memchr(b'\n', &self.chunk);
            // Mostly a chunk is a line. It stays in one piece: cutting off its end would make it a shared one.
            if newline.is_some_and(|at| at + 1 == self.chunk.len() && at <= MAX_FRAME_BYTES)
                && self.partial.is_empty()
            {
                let frame = std::mem::take(&mut self.chunk);
                if frame.trim_ascii().is_empty() {
                    return None;
                }
                return Some(Ok(frame));
            }
            let part = self.chunk.split_to(newline.unwrap_or(self.chunk.len()));
            if self.partial.len() + part.len() > MAX_FRAME_BYTES {
                return Some(Err(FrameTooLarge));
            }
            if newline.is_none() {
                self.partial.extend_from_slice(&part);
                return None;
            }
            let _newline = self.chunk.split_to(1);
            let frame = if self.partial.is_empty() {
                part
            } else {
                self.partial.extend_from_slice(&part);
                self.partial.split().freeze()
            };
            if !frame.trim_ascii().is_empty() {
                return Some(Ok(frame));
            }
        }
    }

    /// What is left when the stream has ended: a last frame without its newline, or a torn one.
    pub(crate) fn take_rest(&mut self) -> Option<Bytes> {
        let rest = self.partial.split().freeze();
        (!rest.trim_ascii().is_empty()).then_some(rest)
    }
}

fn length_of(bytes: &[u8]) -> Option<usize> {
    let length: [u8; LENGTH_BYTES] = *bytes.first_chunk()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, chunk_size: usize) -> (Vec<String>, Option<String>) {
        let text_of = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let mut frames = Frames::default();
        let mut whole = Vec::new();
        for chunk in text.as_bytes().chunks(chunk_size) {
            frames.push(Bytes::copy_from_slice(chunk));
            while let Some(frame) = frames.next() {
                let frame = text_of(frame.unwrap());
                whole.push(frame.trim_end_matches('\n').to_owned());
            }
        }
        (whole, frames.take_rest().map(text_of))
    }

    #[test]
    fn any_chunking_gives_the_same_frames() {
        let text = "{\"a\":\"é😀\"}\n\n{\"b\":2}\r\n{\"c\":\"日本\"}\n{\"torn";
        for chunk_size in 1..=text.len() {
            let (frames, rest) = cut(text, chunk_size);
            assert_eq!(
                frames,
                ["{\"a\":\"é😀\"}", "{\"b\":2}\r", "{\"c\":\"日本\"}"],
                "by {chunk_size}"
            );
            assert_eq!(rest.as_deref(), Some("{\"torn"), "by {chunk_size}");
        }
    }

    #[test]
    fn any_chunking_gives_the_same_messages() {
        let mut text = Vec::new();
        for frame in ["one", "", "a longer one"] {
            text.extend_from_slice(&(frame.len() as u32).to_be_bytes());
            text.extend_from_slice(frame.as_bytes());
        }
        text.extend_from_slice(&[0, 0, 0, 9, b't', b'o']);
        for chunk_size in 1..=text.len() {
            let mut frames = Frames::of(Encoding::Protobuf);
            let mut whole = Vec::new();
            for chunk in text.chunks(chunk_size) {
                frames.push(Bytes::copy_from_slice(chunk));
                while let Some(frame) = frames.next() {
                    whole.push(frame.unwrap());
                }
            }
            assert_eq!(whole, ["one", "", "a longer one"], "by {chunk_size}");
            assert!(frames.take_rest().is_some(), "by {chunk_size}");
        }
    }

    #[test]
    fn a_message_without_end_is_refused_before_it_fills_the_memory() {
        let mut frames = Frames::of(Encoding::Protobuf);
        frames.push(Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0]));
        assert_eq!(frames.next(), Some(Err(FrameTooLarge)));
    }

    #[test]
    fn a_clean_end_leaves_nothing() {
        assert_eq!(cut("{}\n \n", 2).1, None);
    }

    #[test]
    fn a_frame_without_end_is_refused_before_it_fills_the_memory() {
        let mut frames = Frames::default();
        let chunk = Bytes::from(vec![b'x'; MAX_FRAME_BYTES / 2]);
        for _ in 0..2 {
            frames.push(chunk.clone());
            assert_eq!(frames.next(), None);
        }
        frames.push(Bytes::from_static(b"x"));
        assert_eq!(frames.next(), Some(Err(FrameTooLarge)));
    }
}
