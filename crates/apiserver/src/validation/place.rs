//! A value and where it is in its object, and the list of what is wrong.
//!
//! Paths are kept as links to the place around and written out only for errors: almost all objects are
//! valid, and validation runs for every write.

use serde_json::Value;

use crate::status::Cause;

static NULL: Value = Value::Null;

/// A value within an object.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) value: &'a Value,
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    pub(super) fn root(value: &'a Value) -> Place<'a> {
        Place {
            value,
            parent: None,
            step: Step::Root,
        }
    }

    pub(super) fn field<'b>(&'b self, name: &'b str) -> Place<'b> {
        Place {
            value: self.value.get(name).unwrap_or(&NULL),
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    /// A map's entry, written `[key]`.
    pub(super) fn key<'b>(&'b self, key: &'b str) -> Place<'b> {
        Place {
            value: self.value.get(key).unwrap_or(&NULL),
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    /// The same place with another value, where a message shows something else.
    pub(super) fn showing<'b>(&'b self, value: &'b Value) -> Place<'b> {
        Place { value, ..*self }
    }

    pub(super) fn items<'b>(
        &'b self,
    ) -> impl DoubleEndedIterator<Item = Place<'b>> + ExactSizeIterator {
        let items = self
            .value
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .enumerate();
        items.map(move |(index, value)| Place {
            value,
            parent: Some(self),
            step: Step::Index(index),
        })
    }

    pub(super) fn entries<'b>(&'b self) -> impl Iterator<Item = (&'b str, Place<'b>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| {
            (
                key.as_str(),
                Place {
                    value,
                    parent: Some(self),
                    step: Step::Key(key),
                },
            )
        })
    }

    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn integer(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn flag(&self) -> bool {
        self.value.as_bool().unwrap_or_default()
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Absent, or nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        crate::fields::is_empty(self.value)
    }

    pub(super) fn len(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// `spec.containers[0].name`
    pub(super) fn path(&self) -> String {
        let mut path = self.parent.map(Place::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            // UPSTREAM: a path without a name is that of an item without an index.
            Step::Field("") => path.push_str("[]"),
            Step::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) => path.push_str(&format!("[{key}]")),
        }
        path
    }
}

/// No more than these: an object of rubbish must not make an answer, or take memory, of many times its size.
const MAX_CAUSES: usize = 1_000;

/// What is wrong with an object. The words are upstream's: people search for them.
#[derive(Default)]
pub(super) struct Errors(pub(super) Vec<Cause>);

impl Errors {
    fn is_full(&self) -> bool {
        self.0.len() >= MAX_CAUSES
    }

    pub(super) fn required(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueRequired",
            with_detail("Required value", detail),
        );
    }

    pub(super) fn invalid(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueInvalid",
            with_detail(&format!("Invalid value: {}", shown(place.value)), detail),
        );
    }

    /// For faults of a whole list, whose contents would say nothing.
    pub(super) fn invalid_without_value(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.0.push(Cause::new(
            place.path(),
            "FieldValueInvalid",
            format!("Invalid value: {detail}"),
        ));
    }

    pub(super) fn not_supported(&mut self, place: &Place<'_>, supported: &[&str]) {
        if self.is_full() {
            return;
        }
        let supported: Vec<_> = supported
            .iter()
            .map(|value| format!("\"{value}\""))
            .collect();
        // What is not said is the empty text.
        let unset = Value::from("");
        let value = match place.value {
            Value::Null => &unset,
            value => value,
        };
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            supported.join(", ")
        );
        self.push(place, "FieldValueNotSupported", message);
    }

    pub(super) fn duplicate_because(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueDuplicate",
            with_detail(&format!("Duplicate value: {}", shown(place.value)), detail),
        );
    }

    pub(super) fn duplicate(&mut self, place: &Place<'_>) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueDuplicate",
            format!("Duplicate value: {}", shown(place.value)),
        );
    }

    pub(super) fn forbidden(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueForbidden",
            with_detail("Forbidden", detail),
        );
    }

    pub(super) fn not_found(&mut self, place: &Place<'_>) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueNotFound",
            format!("Not found: {}", shown(place.value)),
        );
    }

    pub(super) fn too_long(&mut self, place: &Place<'_>, most: usize) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "FieldValueTooLong",
            format!("Too long: may not be more than {most} bytes"),
        );
    }

    /// Nothing that the user wrote is to blame.
    pub(super) fn internal(&mut self, place: &Place<'_>, detail: &str) {
        if self.is_full() {
            return;
        }
        self.push(
            place,
            "InternalError",
            with_detail("Internal error", detail),
        );
    }

    fn push(&mut self, place: &Place<'_>, reason: &str, message: String) {
        self.0.push(Cause::new(place.path(), reason, message));
    }

    /// Each fault that a syntax check finds.
    pub(super) fn too_many(&mut self, place: &Place<'_>, most: usize) {
        if self.is_full() {
            return;
        }
        let message = format!("Too many: {}: must have at most {most} items", place.len());
        self.push(place, "FieldValueTooMany", message);
    }

    pub(super) fn syntax(&mut self, place: &Place<'_>, check: fn(&str) -> Vec<String>) {
        let empty = Value::from("");
        let shown = if place.value.is_null() {
            &empty
        } else {
            place.value
        };
        if self.is_full() {
            return;
        }
        for fault in check(place.text()) {
            self.invalid(&place.showing(shown), &fault);
        }
    }

    /// A name that must be given and well-formed.
    pub(super) fn name(&mut self, place: &Place<'_>, check: fn(&str) -> Vec<String>) {
        if place.text().is_empty() {
            self.required(place, "")
        } else {
            self.syntax(place, check)
        }
    }

    pub(super) fn need(&mut self, place: &Place<'_>) {
        if place.is_empty() {
            self.required(place, "");
        }
    }

    pub(super) fn one_of(&mut self, place: &Place<'_>, supported: &[&str]) {
        if !supported.contains(&place.text()) {
            self.not_supported(place, supported);
        }
    }

    /// One of the values, if anything is said at all.
    pub(super) fn one_of_if_set(&mut self, place: &Place<'_>, supported: &[&str]) {
        if place.is_set() {
            self.one_of(place, supported);
        }
    }

    pub(super) fn not_negative(&mut self, place: &Place<'_>) {
        if place.integer().is_some_and(|number| number < 0) {
            self.invalid(place, "must be greater than or equal to 0");
        }
    }

    pub(super) fn within(&mut self, place: &Place<'_>, least: i64, most: i64) {
        if place
            .integer()
            .is_some_and(|number| !(least..=most).contains(&number))
        {
            self.invalid(
                place,
                &format!("must be between {least} and {most}, inclusive"),
            );
        }
    }

    pub(super) fn port(&mut self, place: &Place<'_>) {
        let number = place.integer().unwrap_or_default();
        if !(1..=65535).contains(&number) {
            let number = Value::from(number);
            self.invalid(
                &place.showing(&number),
                "must be between 1 and 65535, inclusive",
            );
        }
    }

    /// A port's number or name.
    pub(super) fn port_or_name(&mut self, place: &Place<'_>) {
        if place.value.is_string() {
            self.syntax(place, port_name)
        } else {
            self.port(place)
        }
    }

    /// A field that cannot change and did, of a kind that messages show in a form of its own.
    pub(super) fn changed(&mut self, place: &Place<'_>, shown: &str) {
        if self.is_full() {
            return;
        }
        let message = format!("Invalid value: {shown}: field is immutable");
        self.push(place, "FieldValueInvalid", message);
    }

    /// A field that cannot change once it is set.
    pub(super) fn immutable(&mut self, place: &Place<'_>, old: &Value) {
        if place.value != old {
            self.invalid(place, "field is immutable");
        }
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {detail}")
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => api::syntax::go_quote(text),
        other => other.to_string(),
    }
}

/// An IANA service name: at most 15 letters, digits and hyphens, with a letter among them.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters".to_owned());
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        faults.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Keys of ConfigMaps and Secrets, which become file names.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty()
        || !key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned(),
        );
    }
    match key {
        "." | ".." => faults.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}
