//! Who the kubelets are. Usually nobody in particular: all write by the client that the simulation was given. With a
//! [`Bootstrap`] each goes the way of TLS bootstrap: by a token it asks for a client certificate, and once that is
//! approved and signed all that it writes about its node and its pods is written by it, is authorized as a node's writes
//! are, and is refused where a node's would be. It asks for the next certificate before the one in use ends, and for one
//! to serve with, which waits for a person.
//!
//! Keys stay in memory: a start is a new bootstrap. What no kubelet does (playing a cloud that takes its machine away,
//! putting a time into an annotation) is written by the simulation's own client, which also watches: one cache serves all
//! nodes.

mod certificate;
mod request;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Clock, Istr, Rng};
use client::{BoxError, Client, Transport};
use parking_lot::{Mutex, RwLock};
use runtime::{Recorder, Stop, Task, spawn};
use tower::ServiceExt;

use crate::config::NodeConfig;

pub(crate) use certificate::{Kubelet, keep};

/// How the kubelets get certificates.
#[derive(Clone)]
pub struct Bootstrap {
    /// As bearer: `abcdef.0123456789abcdef`.
    pub token: String,
    /// Opens a connection to the API server under an identity.
    pub connect: Connect,
}

pub type Connect = Arc<dyn Fn(&Credentials) -> Result<Transport, BoxError> + Send + Sync>;

/// What proves who somebody is. Not for printing.
pub enum Credentials {
    Token(String),
    /// Both in PEM.
    Certificate {
        certificate: String,
        key: String,
    },
}

/// The clients of all kubelets.
pub(crate) struct NodeClients {
    shared: Client,
    /// The nodes that go by certificates; none until theirs is there.
    own: Mutex<BTreeMap<Istr, Option<Own>>>,
    writers: Mutex<Vec<Task<()>>>,
}

/// A kubelet that is somebody.
#[derive(Clone)]
struct Own {
    client: Client,
    recorder: Recorder,
    transport: Replaceable,
}

impl NodeClients {
    pub(crate) fn new(shared: Client, bootstrapped: &[NodeConfig]) -> Arc<NodeClients> {
        let names = bootstrapped.iter();
        let own = names.map(|node| (Istr::from(node.name.as_str()), None));
        Arc::new(NodeClients {
            shared,
            own: Mutex::new(own.collect()),
            writers: Mutex::default(),
        })
    }

    /// The simulation's own client.
    pub(crate) fn shared(&self) -> &Client {
        &self.shared
    }

    /// What the kubelet of a node writes by; none while it waits for its certificate.
    pub(crate) fn of(&self, node: &str) -> Option<Client> {
        match self.own.lock().get(node) {
            None => Some(self.shared.clone()),
            Some(own) => own.as_ref().map(|own| own.client.clone()),
        }
    }

    /// What the kubelet of a node records events by, if that is not what all share.
    pub(crate) fn recorder_of(&self, node: &str) -> Option<Recorder> {
        let own = self.own.lock();
        own.get(node)?.as_ref().map(|own| own.recorder.clone())
    }

    /// From now on the node writes by this.
    fn adopt(&self, node: &str, transport: Transport, clock: &Clock, rng: &Rng, stop: &Stop) {
        let mut own = self.own.lock();
        if let Some(Some(held)) = own.get(node) {
            held.transport.replace(transport);
            return;
        }
        let transport = Replaceable::new(transport);
        let client = Client::new(transport.transport()).with_user_agent("kubelet/v1.36.3");
        let (recorder, writer) =
            Recorder::new("kubelet", node, client.clone(), clock.clone(), rng.fork());
        self.writers.lock().push(spawn(writer.run(stop.clone())));
        let made = Own {
            client,
            recorder,
            transport,
        };
        own.insert(Istr::from(node), Some(made));
    }
}

/// A transport in whose place another one can be put while clients use it.
#[derive(Clone)]
struct Replaceable(Arc<RwLock<Transport>>);

impl Replaceable {
    fn new(transport: Transport) -> Replaceable {
        Replaceable(Arc::new(RwLock::new(transport)))
    }

    fn replace(&self, transport: Transport) {
        *self.0.write() = transport;
    }

    fn transport(&self) -> Transport {
        let held = self.0.clone();
        Transport::new(tower::service_fn(move |request| {
            let now = held.read().clone();
            now.oneshot(request)
        }))
    }
}
