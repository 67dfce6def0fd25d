//! The dashboard on the secure port of `controller-manager`: read only, behind the port's own authentication and
//! authorization (`get` on `/dashboard/*`), and what it shows is what the viewer's own token may read.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;
use dashboard::{Dashboard, Feed, Sessions, Setup};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use manager::Process;
use manager::auth::{Denied, User};
use manager::serving::{Body, Mounted};

use crate::up::dashboard::InTheBox;

/// The dashboard below [`dashboard::PATH`].
struct OnThePort {
    dashboard: Arc<Dashboard>,
    sessions: Sessions,
    /// To the API server, without an identity: each viewer brings a token.
    bare: Client,
}

/// Serves it; until somebody opens the page, it costs nothing.
pub(crate) fn mount(process: &Process, feed: Arc<Feed>) {
    let agent = manager::version::user_agent("dashboard");
    let client = Client::new(process.transport.clone()).with_user_agent(&agent);
    let server = &process.host;
    let source = InTheBox::on_a_cluster(client.clone(), server, &process.clock, &process.decisions);
    let dashboard = Dashboard::new(Setup {
        feed,
        client,
        decisions: process.decisions.clone(),
        clock: process.clock.clone(),
        rng: process.rng.clone(),
        source: Arc::new(source),
        cluster: server.clone(),
        acts: false,
        has_owner: false,
    });
    let on_the_port = OnThePort {
        dashboard,
        sessions: Sessions::default(),
        bare: Client::new(process.bare_transport.clone()).with_user_agent(&agent),
    };
    process.router.mount(dashboard::PATH, Arc::new(on_the_port));
}

impl Mounted for OnThePort {
    fn authorization(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        self.sessions.authorization(headers)
    }

    fn answer(&self, user: &User, request: Request<Bytes>) -> BoxFuture<'_, Response<Body>> {
        let name = user.name.clone();
        async move {
            self.dashboard
                .answer_on_port(&self.sessions, &self.bare, &name, request)
                .await
        }
        .boxed()
    }

    fn turn_away(&self, path: &str, denied: &Denied) -> Option<Response<Body>> {
        let (status, why) = match denied {
            Denied::Unauthorized(_) => (
                StatusCode::UNAUTHORIZED,
                "The API server does not know who you are.".to_owned(),
            ),
            Denied::Forbidden { user, .. } => (
                StatusCode::FORBIDDEN,
                format!("{user} may not `get` the path {path}."),
            ),
            Denied::Unavailable(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The API server could not be asked whether you may see this; try again.".to_owned(),
            ),
        };
        dashboard::turn_away(path, status, &why)
    }
}
