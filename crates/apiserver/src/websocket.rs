//! The server's side of a WebSocket (RFC 6455), as far as commands and logs need it: whole messages out, and of what comes
//! in only pings and the end, because simulated commands read nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use http::HeaderMap;
use http::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What the protocol adds to a key to show that it was understood.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The largest frame that is taken in: more than anybody types.
const MAX_FRAME: usize = 1024 * 1024;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What a client who wants to upgrade to a WebSocket has to be told.
pub(crate) struct Handshake {
    pub(crate) accept: String,
    /// Empty where the client named none.
    pub(crate) protocol: &'static str,
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Binary,
    /// As text, for clients that can read nothing else.
    Base64,
}

impl Handshake {
    /// What the protocol that was agreed on asks for.
    pub(crate) fn encoding(&self) -> Encoding {
        match self.protocol.contains("base64.") {
            true => Encoding::Base64,
            false => Encoding::Binary,
        }
    }
}

/// Is the request an upgrade to this protocol?
pub(crate) fn upgrades_to(headers: &HeaderMap, protocol: &str) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    upgrade.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.starts_with(&protocol.to_ascii_lowercase())
    })
}

impl Handshake {
    /// Agrees on the first protocol of ours that the client offers too; on the empty one, if that is among ours, where
    /// the client offers none.
    pub(crate) fn new(headers: &HeaderMap, ours: &[&'static str]) -> Result<Handshake, String> {
        let key = headers.get(SEC_WEBSOCKET_KEY);
        let key = key.and_then(|value| value.to_str().ok());
        let Some(key) = key else {
            return Err("the WebSocket handshake has no key".to_owned());
        };
        let offered: Vec<&str> = headers
            .get_all(SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        let is_spoken = |protocol: &str| {
            offered.contains(&protocol) || offered.is_empty() && protocol.is_empty()
        };
        let Some(protocol) = ours.iter().find(|protocol| is_spoken(protocol)) else {
            return Err(format!(
                "unable to upgrade: none of the protocols {offered:?} is spoken here, but {ours:?}"
            ));
        };
        let text = format!("{key}{MAGIC}");
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        Ok(Handshake {
            accept: STANDARD.encode(digest.as_ref()),
            protocol,
        })
    }
}

/// An open WebSocket.
pub(crate) struct Socket<S> {
    stream: S,
    encoding: Encoding,
    incoming: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(crate) fn new(stream: S, encoding: Encoding) -> Socket<S> {
        Socket {
            stream,
            encoding,
            incoming: BytesMut::new(),
        }
    }

    /// Sends one message on a channel, whose number the channel protocols put in front of every message.
    pub(crate) async fn send_on(&mut self, channel: u8, payload: &[u8]) -> io::Result<()> {
        match self.encoding {
            Encoding::Binary => self.write(BINARY, &[&[channel], payload].concat()).await,
            Encoding::Base64 => {
                let message = format!("{channel}{}", STANDARD.encode(payload));
                self.write(TEXT, message.as_bytes()).await
            }
        }
    }

    /// Sends one message, where there is one stream alone.
    pub(crate) async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        match self.encoding {
            Encoding::Binary => self.write(BINARY, payload).await,
            Encoding::Base64 => self.write(TEXT, STANDARD.encode(payload).as_bytes()).await,
        }
    }

    /// Says that all is well and that nothing more will come.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        // 1000: a normal end.
        self.write(CLOSE, &1000_u16.to_be_bytes()).await?;
        self.stream.shutdown().await
    }

    async fn write(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | opcode];
        let length = payload.len();
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short), _) if short < 126 => frame.push(short),
            (_, Ok(medium)) => {
                frame.push(126);
                frame.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                frame.push(127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }

    /// Reads until the peer goes. May be dropped and called again at any time.
    pub(crate) async fn until_closed(&mut self) {
        loop {
            while let Some((opcode, payload)) = match take_frame(&mut self.incoming) {
                Ok(frame) => frame,
                Err(()) => return,
            } {
                let answered = match opcode {
                    CLOSE => return,
                    PING => self.write(PONG, &payload).await,
                    _ => Ok(()),
                };
                if answered.is_err() {
                    return;
                }
            }
            match self.stream.read_buf(&mut self.incoming).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// The first whole frame of what has arrived, unmasked; an error for one that is too large.
fn take_frame(incoming: &mut BytesMut) -> Result<Option<(u8, Vec<u8>)>, ()> {
    let [first, second, ..] = **incoming else {
        return Ok(None);
    };
    let (is_masked, short) = (second & 0x80 != 0, usize::from(second & 0x7f));
    let extra = match short {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let start = 2 + extra + if is_masked { 4 } else { 0 };
    if incoming.len() < start {
        return Ok(None);
    }
    let length = match extra {
        0 => short,
        _ => {
            let digits = incoming[2..2 + extra].iter();
            let length = digits.fold(0_u64, |sum, digit| sum << 8 | u64::from(*digit));
            usize::try_from(length).map_err(drop)?
        }
    };
    if length > MAX_FRAME {
        return Err(());
    }
    if incoming.len() < start + length {
        return Ok(None);
    }
    let mask: Vec<u8> = match is_masked {
        true => incoming[start - 4..start].to_vec(),
        false => vec![0; 4],
    };
    incoming.advance(start);
    let payload = incoming.split_to(length);
    let unmasked = payload.iter().zip(mask.iter().cycle());
    let payload = unmasked.map(|(byte, mask)| byte ^ mask).collect();
    Ok(Some((first & 0x0f, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standards_example_is_answered() {
        let mut headers = HeaderMap::new();
        headers.insert(
            SEC_WEBSOCKET_KEY,
            "dGhlIHNhbXBsZSBub25jZQ==".parse().unwrap(),
        );
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            "v9.x, v4.channel.k8s.io".parse().unwrap(),
        );
        let ours = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
        let handshake = Handshake::new(&headers, &ours).unwrap();
        assert_eq!(handshake.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(handshake.protocol, "v4.channel.k8s.io");
        assert!(Handshake::new(&headers, &ours[..1]).is_err());
        assert!(Handshake::new(&headers, &["v5.channel.k8s.io", ""]).is_err());
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        assert!(Handshake::new(&headers, &ours).is_err());
        assert_eq!(Handshake::new(&headers, &["x", ""]).unwrap().protocol, "");
    }

    #[tokio::test]
    async fn messages_are_binary_or_text() {
        for (encoding, expected) in [
            (Encoding::Binary, b"\x82\x03\x01hi\x82\x02hi".to_vec()),
            (Encoding::Base64, b"\x81\x051aGk=\x81\x04aGk=".to_vec()),
        ] {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let mut socket = Socket::new(ours, encoding);
            socket.send_on(1, b"hi").await.unwrap();
            socket.send(b"hi").await.unwrap();
            drop(socket);
            let mut said = Vec::new();
            theirs.read_to_end(&mut said).await.unwrap();
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn frames_are_taken_whole_and_unmasked() {
        // "Hello", masked: the example of RFC 6455, section 5.7.
        let hello = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        let mut incoming = BytesMut::from(&hello[..7]);
        assert_eq!(take_frame(&mut incoming), Ok(None));
        incoming.extend_from_slice(&hello[7..]);
        assert_eq!(take_frame(&mut incoming), Ok(Some((1, b"Hello".to_vec()))));
        assert!(incoming.is_empty());
        let mut large = BytesMut::from(&[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..]);
        assert_eq!(take_frame(&mut large), Err(()));
    }

    #[tokio::test]
    async fn pings_are_answered_until_the_peer_closes() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let ping = [0x89, 0x80, 0, 0, 0, 0];
        let close = [0x88, 0x80, 0, 0, 0, 0];
        theirs.write_all(&ping).await.unwrap();
        theirs.write_all(&close).await.unwrap();
        Socket::new(ours, Encoding::Binary).until_closed().await;
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, [0x8a, 0]);
    }
}
