//! Changes of whole objects, for roles that may update and not patch.
//!
//! Our fields are changed in the text that came, and the whole is written back with the revision that it had: what a
//! newer API server put in passes through, and writes of other clients in between are not overwritten. The text is what the cache
//! has kept of it, beside metadata as [`crate::workload::status`] writes it; where it has kept none the object is read.

use std::sync::Arc;

use api::json::Node;
use api::kinds::Rewritten;
use api::{Meta, Resource};
use bytes::Bytes;
use client::Client;
use runtime::Error;

/// An object as the API server has it now: as a view, and whole.
pub(crate) struct Live<K> {
    pub view: Arc<K>,
    whole: Whole,
}

/// An answer is parsed when it is to be changed, and not before: what came of the last write of a row never is.
enum Whole {
    Parsed(Node),
    Answer(Bytes),
}

impl<K: Resource> Live<K> {
    /// The object as the cache has it, if that is the whole of it, else as the API server has it. None if it is gone, or
    /// another has its name.
    pub async fn of(client: &Client, object: &Arc<K>) -> Result<Option<Live<K>>, Error>
    where
        K: Rewritten,
    {
        match Live::kept(object) {
            Some(live) => Ok(Some(live)),
            None => Live::read(client, object.meta()).await,
        }
    }

    /// The object as the cache has it, if that is the whole of it.
    pub fn kept(object: &Arc<K>) -> Option<Live<K>>
    where
        K: Rewritten,
    {
        let mut whole = Node::parse(object.kept()?).ok()?;
        let (version, kind) = (K::TYPE.api_version(), &K::TYPE.kind);
        whole.set(&["apiVersion"], Node::text(&version));
        whole.set(&["kind"], Node::text(kind));
        whole.set(&["metadata"], Node::of(object.meta()));
        Some(Live {
            view: object.clone(),
            whole: Whole::Parsed(whole),
        })
    }

    /// Reads the object that was seen as `meta`. None if it is gone, or another has its name.
    pub async fn read(client: &Client, meta: &Meta) -> Result<Option<Live<K>>, Error> {
        let body = match client.get(&K::TYPE, &meta.namespace, &meta.name).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let live: Live<K> = Live::answered(body)?;
        Ok((live.view.meta().uid == meta.uid).then_some(live))
    }

    /// The same, if it was not written since it was seen as `meta`: what was decided on that must be decided again.
    pub async fn read_unchanged(client: &Client, meta: &Meta) -> Result<Live<K>, Error> {
        match Live::<K>::read(client, meta).await? {
            Some(live) if live.view.meta().resource_version == meta.resource_version => Ok(live),
            _ => Err(Error::Retry(format!(
                "{} {} is not as it was seen",
                K::TYPE.kind,
                meta.key()
            ))),
        }
    }

    /// Writes the object, or a subresource of it, with what `edit` changes. The view is then what came of it.
    pub async fn put(
        &mut self,
        client: &Client,
        subresource: Option<&str>,
        edit: impl FnOnce(&mut Node),
    ) -> Result<(), Error> {
        let meta = self.view.meta();
        let body = match &mut self.whole {
            Whole::Parsed(whole) => edited(whole, edit),
            Whole::Answer(body) => edited(&mut parse(body)?, edit),
        };
        let answer = client
            .replace(&K::TYPE, &meta.namespace, &meta.name, subresource, body)
            .await?;
        *self = Live::answered(answer)?;
        Ok(())
    }

    fn answered(body: Bytes) -> Result<Live<K>, Error> {
        let view = K::decode(&body).map_err(|error| Error::Retry(error.to_string()))?;
        Ok(Live {
            view: Arc::new(view),
            whole: Whole::Answer(body),
        })
    }
}

fn edited(whole: &mut Node, edit: impl FnOnce(&mut Node)) -> String {
    edit(whole);
    whole.to_string()
}

fn parse(body: &Bytes) -> Result<Node, Error> {
    let retry = |error: &dyn std::fmt::Display| Error::Retry(error.to_string());
    let text = std::str::from_utf8(body).map_err(|error| retry(&error))?;
    Node::parse(text).map_err(|error| retry(&error))
}
