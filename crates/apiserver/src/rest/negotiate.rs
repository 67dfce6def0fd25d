//! Which shape of answer a client accepts: the object itself, just its metadata, or a table.

use crate::status::Status;
use http::HeaderMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    /// `PartialObjectMetadata`, or its list.
    Metadata,
    Table,
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The first clause of the Accept header that we can answer. We answer JSON, and YAML where it is asked for
/// first: clients that prefer protobuf always name JSON too.
pub(crate) fn shape(headers: &HeaderMap) -> Result<Shape, Status> {
    first_of(headers, |_| true)
}

/// The same for what is never shown as a table.
pub(crate) fn without_table(headers: &HeaderMap) -> Result<Shape, Status> {
    first_of(headers, |shape| shape != Shape::Table)
}

fn first_of(headers: &HeaderMap, is_served: impl Fn(Shape) -> bool) -> Result<Shape, Status> {
    if is_plain(headers) || clauses(headers).next().is_none() {
        return Ok(Shape::Object);
    }
    let mut shapes = clauses(headers).filter_map(clause_shape);
    if let Some(shape) = shapes.find(|shape| is_served(*shape)) {
        return Ok(shape);
    }
    // UPSTREAM: a type that nobody knows is answered in other words than one of a known kind.
    let known = clauses(headers).any(|clause| MEDIA_TYPES.contains(media(clause)));
    let message = if known {
        format!("only the following media types are accepted: {MEDIA_TYPES}")
    } else {
        format!("406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}")
    };
    Err(Status::new(406, "NotAcceptable", message))
}

/// Whether the clause that is answered asks for YAML.
pub(crate) fn wants_yaml(headers: &HeaderMap) -> bool {
    if is_plain(headers) {
        return false;
    }
    let answered = clauses(headers).find(|clause| clause_shape(clause).is_some());
    answered.is_some_and(|clause| media(clause) == "application/yaml")
}

/// The API version of a table, or of mere metadata, as the clause that is answered asks for it.
pub(crate) fn meta_version(headers: &HeaderMap) -> &'static str {
    let answered = clauses(headers).find(|clause| clause_shape(clause).is_some());
    let is_beta = answered.is_some_and(|clause| {
        clause
            .split(';')
            .any(|parameter| parameter.trim() == "v=v1beta1")
    });
    match is_beta {
        true => "meta.k8s.io/v1beta1",
        false => "meta.k8s.io/v1",
    }
}

/// What most clients say: no clause need be looked at.
fn is_plain(headers: &HeaderMap) -> bool {
    let accept = headers.get(http::header::ACCEPT);
    accept.is_some_and(|accept| accept == "application/json")
}

fn clauses(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
}

fn media(clause: &str) -> &str {
    clause.split(';').next().unwrap_or_default().trim()
}

fn clause_shape(clause: &str) -> Option<Shape> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let known = [
        "application/json",
        "application/yaml",
        "*/*",
        "application/*",
        "",
    ];
    if !known.contains(&media) {
        return None;
    }
    let (mut wanted, mut version_known, mut group_known) = (None, true, true);
    for parameter in parts {
        match parameter.split_once('=') {
            Some(("as", value)) => wanted = Some(value),
            Some(("v", value)) => version_known = matches!(value, "v1" | "v1beta1"),
            Some(("g", value)) => group_known = value == "meta.k8s.io",
            _ => {}
        }
    }
    match wanted {
        None => Some(Shape::Object),
        Some("Table") if version_known && group_known => Some(Shape::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList")
            if version_known && group_known =>
        {
            Some(Shape::Metadata)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: Option<Shape>) {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, accept.parse().unwrap());
        assert_eq!(shape(&headers).ok(), expected, "{accept}");
    }

    #[test]
    fn picks_the_first_clause_it_can_answer() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check(kubectl, Some(Shape::Table));
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Some(Shape::Object),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            Some(Shape::Metadata),
        );
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Some(Shape::Table),
        );
        check("application/json;as=Table;v=v2;g=meta.k8s.io", None);
        check("*/*", Some(Shape::Object));
        check("application/vnd.kubernetes.protobuf", None);
    }

    #[test]
    fn what_has_no_table_is_an_object_where_the_client_takes_one() {
        let said = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT, accept.parse().unwrap());
            without_table(&headers).map_err(|status| status.message)
        };
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let refused = format!("only the following media types are accepted: {MEDIA_TYPES}");
        assert_eq!(said(table), Err(refused));
        assert_eq!(
            said(&format!("{table},application/json")),
            Ok(Shape::Object)
        );
    }
}
