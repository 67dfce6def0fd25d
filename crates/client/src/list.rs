//! Splitting a list into its objects without decoding or copying them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Each one object's JSON as the server wrote it: slices of the answer, not copies. In lists the server
    /// leaves out `kind` and `apiVersion` of the items.
    pub items: Vec<Bytes>,
    pub resource_version: u64,
    /// There is more: the token to ask for the next page with.
    pub continue_token: Option<String>,
}

pub(crate) fn parse(body: &Bytes) -> Result<ListPage, serde_json::Error> {
    let wire: Wire<'_> = serde_json::from_slice(body)?;
    let items = wire.items.unwrap_or_default();
    Ok(ListPage {
        items: items
            .iter()
            .map(|item| body.slice_ref(item.get().as_bytes()))
            .collect(),
        resource_version: revision(&wire.metadata.resource_version),
        continue_token: Some(wire.metadata.continue_token.into_owned())
            .filter(|token| !token.is_empty()),
    })
}

/// Resource versions are comparable decimal numbers. Some aggregated servers send none or something else:
/// they count as 0, from which a watch starts with whatever the server has.
pub(crate) fn revision(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: ListMeta<'a>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, rename = "continue")]
    continue_token: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_slices_of_the_answer() {
        let body = Bytes::from_static(
            br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42","continue":"a\"b"},
            "items":[ {"a": "\u00e9\n", "b":1.50}, {} ]}"#,
        );
        let page = parse(&body).unwrap();
        assert_eq!(page.resource_version, 42);
        assert_eq!(page.continue_token.as_deref(), Some("a\"b"));
        assert_eq!(page.items[0].as_ref(), br#"{"a": "\u00e9\n", "b":1.50}"#);
        assert_eq!(page.items[1].as_ref(), b"{}");
        assert!(
            body.as_ptr_range().contains(&page.items[1].as_ptr()),
            "copied instead of sliced"
        );
    }

    #[test]
    fn null_items_are_an_empty_page() {
        let page = parse(&Bytes::from_static(br#"{"metadata":{},"items":null}"#)).unwrap();
        assert_eq!(page, ListPage::default());
    }

    #[test]
    fn what_is_not_a_list_is_an_error() {
        for body in [
            "",
            "<html>",
            "{}",
            "[]",
            r#"{"metadata":{},"items":[{]}"#,
            "{\"metadata\":{},\"items\":[\"\u{0}\"]}",
        ] {
            assert!(
                parse(&Bytes::from(body)).is_err(),
                "{body:?} was taken for a list"
            );
        }
        let not_utf8 = Bytes::from_static(b"{\"metadata\":{},\"items\":[\"\xff\"]}");
        assert!(parse(&not_utf8).is_err());
    }
}
