//! What can be said along with a verb: selectors, resource versions, preconditions, patch types.

use bytes::Bytes;
use serde::Serialize;

use crate::path::Query;
use api::Uid;

/// What to list, and how fresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// At most this many objects a page; the server answers a continue token when there are more.
    pub limit: Option<u32>,
    pub continue_token: Option<String>,
    pub resource_version: Option<String>,
    pub resource_version_match: Option<ResourceVersionMatch>,
    /// Ask for `PartialObjectMetadata` instead of whole objects.
    pub metadata_only: bool,
}

/// How the resource version of a list is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

/// What to watch, from where, and for how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub resource_version: Option<String>,
    /// WatchList: begin with the present objects and mark their end by a bookmark. Implies
    /// `resourceVersionMatch=NotOlderThan`, which the server demands with it.
    pub send_initial_events: bool,
    pub allow_bookmarks: bool,
    /// The server ends the stream after this long; the client does, should the server forget to.
    pub timeout_seconds: Option<u32>,
    /// Ask for `PartialObjectMetadata` instead of whole objects.
    pub metadata_only: bool,
    /// Ask for protobuf; the stream says whether the server had it.
    pub protobuf: bool,
}

/// The four ways to change a part of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch {
    Json(Bytes),
    Merge(Bytes),
    Strategic(Bytes),
    /// Server-side apply. JSON is YAML, so the body may be either.
    Apply {
        body: Bytes,
        field_manager: String,
        force: bool,
    },
}

/// Under which conditions to delete, and what becomes of the dependents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    /// Delete only the object with this uid, not a namesake created since.
    pub uid: Option<Uid>,
    /// Delete only this state of the object.
    pub resource_version: Option<u64>,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Deletes this very object, not a namesake created since.
    pub fn exactly(uid: &Uid) -> DeleteOptions {
        DeleteOptions {
            uid: Some(uid.clone()),
            ..DeleteOptions::default()
        }
    }
}

/// What becomes of the objects that the deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

impl ListOptions {
    pub(crate) fn query(&self) -> Query {
        let matching = self.resource_version_match.map(|rule| match rule {
            ResourceVersionMatch::Exact => "Exact",
            ResourceVersionMatch::NotOlderThan => "NotOlderThan",
        });
        let mut query = Query::new();
        query.text("continue", self.continue_token.as_deref());
        query.text("fieldSelector", self.field_selector.as_deref());
        query.text("labelSelector", self.label_selector.as_deref());
        query.number("limit", self.limit);
        query.text("resourceVersion", self.resource_version.as_deref());
        query.text("resourceVersionMatch", matching);
        query
    }
}

impl WatchOptions {
    pub(crate) fn query(&self) -> Query {
        let mut query = Query::new();
        query.flag("allowWatchBookmarks", self.allow_bookmarks);
        query.text("fieldSelector", self.field_selector.as_deref());
        query.text("labelSelector", self.label_selector.as_deref());
        query.text("resourceVersion", self.resource_version.as_deref());
        query.text(
            "resourceVersionMatch",
            self.send_initial_events.then_some("NotOlderThan"),
        );
        query.flag("sendInitialEvents", self.send_initial_events);
        query.number("timeoutSeconds", self.timeout_seconds);
        query.flag("watch", true);
        query
    }
}

impl Patch {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Patch::Json(_) => "application/json-patch+json",
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub(crate) fn body(&self) -> &Bytes {
        match self {
            Patch::Json(body) | Patch::Merge(body) | Patch::Strategic(body) => body,
            Patch::Apply { body, .. } => body,
        }
    }

    pub(crate) fn query(&self) -> Query {
        let mut query = Query::new();
        if let Patch::Apply {
            field_manager,
            force,
            ..
        } = self
        {
            query.text("fieldManager", Some(field_manager));
            query.flag("force", *force);
        }
        query
    }
}

impl DeleteOptions {
    pub(crate) fn body(&self) -> Bytes {
        let preconditions =
            (self.uid.is_some() || self.resource_version.is_some()).then(|| Preconditions {
                uid: self.uid.as_ref().map(|uid| uid.to_string()),
                resource_version: self.resource_version.map(|version| version.to_string()),
            });
        let wire = DeleteBody {
            kind: "DeleteOptions",
            api_version: "v1",
            grace_period_seconds: self.grace_period_seconds,
            preconditions,
            propagation_policy: self.propagation,
            dry_run: self.dry_run.then_some(["All"]),
        };
        serde_json::to_vec(&wire)
            .expect("strings and numbers always serialise")
            .into()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteBody {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}
