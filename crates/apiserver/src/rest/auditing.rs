//! What of a request goes into the audit log, and when.

use super::{Begun, RequestInfo, metadata, response};
use crate::Body;
use crate::audit::{Recording, Stage, UntilComplete};
use crate::auth::Identity;
use crate::metrics::Labels;
use crate::server::Shared;
use crate::status::Status;
use bytes::Bytes;
use connections::Held;
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use std::sync::Arc;

/// Begins the event of a request that is to be logged.
pub(super) fn begin(
    shared: &Shared,
    request: Request<Bytes>,
    info: &RequestInfo,
    identity: &Identity,
) -> (Request<Bytes>, Option<Recording>) {
    let Some(auditor) = &shared.settings.audit else {
        return (request, None);
    };
    let (parts, body) = request.into_parts();
    let id = metadata::new_uid(shared);
    let mut recording = auditor.begin(&shared.clock, id, &parts, info, identity);
    if let Some(recording) = &mut recording {
        recording.request_body(&parts.headers, &body);
    }
    (Request::from_parts(parts, body), recording)
}

/// Notes whether the request may be made, and as whom.
pub(super) fn note_decision(
    recording: &mut Recording,
    caller: &Arc<Identity>,
    begun: &Result<Begun, Status>,
) {
    let is_forbidden = matches!(begun, Err(status) if status.code == 403);
    recording.allowed(!is_forbidden, "");
    if let Ok(Begun::Resource(context, _)) = begun
        && !Arc::ptr_eq(&context.identity, caller)
    {
        recording.impersonated(&context.identity);
    }
}

/// Logs the answer: now, or for a watch when it has begun and when it ends.
pub(super) async fn finish(
    mut recording: Recording,
    mut answer: Response<Body>,
    labels: Option<&Labels>,
) -> Response<Body> {
    if let Ok(id) = HeaderValue::from_str(recording.id()) {
        answer.headers_mut().insert("audit-id", id);
    }
    let code = answer.status();
    if labels.is_some_and(|labels| labels.verb == "watch") && code.is_success() {
        recording.answered(code.as_u16(), None);
        recording.write(Stage::ResponseStarted);
        let until = UntilComplete(recording);
        return answer.map(|body| Held::new(body, until).boxed_unsync());
    }
    // The body of a success is looked at only where all of it is logged, and never that of a stream.
    let is_stream = answer.body().size_hint().exact().is_none();
    if is_stream || (!recording.wants_response() && code.is_success()) {
        recording.answered(code.as_u16(), None);
        recording.write(Stage::ResponseComplete);
        return answer;
    }
    let (parts, body) = answer.into_parts();
    // All but watches are in memory already.
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    recording.answered(code.as_u16(), Some(&body));
    recording.write(Stage::ResponseComplete);
    Response::from_parts(parts, response::whole(body))
}
