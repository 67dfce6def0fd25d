//! Reads JSON and YAML into a value and remembers which fields were given more than once.
//!
//! The last one wins, as everywhere; `fieldValidation` says how much noise that makes. The `fieldsV1` of managed
//! fields are left as JSON text, because few requests change them: see [`super::metadata::normalize_managed_fields`].

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

/// UPSTREAM: no more than these are named.
const MAX_NAMED: usize = 100;

/// How many levels of lists and objects a body may have. What is stored must parse again, and the parser stops at 128
/// levels: this leaves room for the managed fields of the deepest object, which lie four levels below the top and have
/// a level more than what they name.
pub(crate) const MAX_DEPTH: usize = 120;

/// In the words of Go's parser, which has a limit too.
pub(crate) const TOO_DEEP: &str = "exceeded max depth";

/// How many lists and objects a body may have. The smallest has two letters, and what is made of it by its type and by
/// defaults has hundreds of bytes, several times over. The largest definitions that are known have some ten thousand.
pub(crate) const MAX_NODES: usize = 100_000;

pub(crate) const TOO_MANY: &str = "more than 100000 lists and objects";

/// A value and the paths that occurred more than once in it. Of YAML it is one sentence that names all of them.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn json(body: &[u8]) -> Result<Read, serde_json::Error> {
    let (duplicates, nodes) = (RefCell::default(), Cell::new(MAX_NODES));
    // What is text as a whole need not be checked string by string.
    let mut parser = serde_json::Deserializer::from_str(text(body)?);
    let value = Seed::top(&duplicates, &nodes).deserialize(&mut parser)?;
    parser.end()?;
    Ok(Read {
        value,
        duplicates: duplicates.into_inner(),
    })
}

/// A field that a body should not have, or not twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) is_repeated: bool,
    pub(crate) source: Source,
}

/// What was read: each has words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Json,
    JsonPatch,
    Yaml,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_repeated && self.source == Source::Yaml {
            return formatter.write_str(&self.path);
        }
        let path = api::syntax::go_quote(&self.path);
        if self.source == Source::JsonPatch {
            formatter.write_str("json patch ")?;
        }
        match self.is_repeated {
            true => write!(formatter, "duplicate field {path}"),
            false => write!(formatter, "unknown field {path}"),
        }
    }
}

/// Puts faults into the order in which a reader of JSON text meets them. Those of YAML are sorted by their names.
pub(crate) fn sort_by_place(body: &[u8], faults: &mut [Fault]) {
    if faults.len() < 2 || faults[0].source == Source::Yaml {
        return;
    }
    let mut wanted: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, fault) in faults.iter().enumerate() {
        wanted.entry(&fault.path).or_default().push(index);
    }
    let search = RefCell::new(Search {
        path: String::new(),
        fields: 0,
        places: vec![Vec::new(); faults.len()],
        wanted,
    });
    let mut parser = serde_json::Deserializer::from_slice(body);
    // What cannot be read has been refused before.
    let _ = Find(&search).deserialize(&mut parser);
    let Search { places, .. } = search.into_inner();
    let mut order: Vec<usize> = (0..faults.len()).collect();
    order.sort_by_key(|index| {
        let nth = usize::from(faults[*index].is_repeated);
        places[*index].get(nth).copied().unwrap_or(usize::MAX)
    });
    let sorted: Vec<Fault> = order
        .into_iter()
        .map(|index| Fault {
            path: std::mem::take(&mut faults[index].path),
            ..faults[index]
        })
        .collect();
    for (place, fault) in faults.iter_mut().zip(sorted) {
        *place = fault;
    }
}

/// Looks for the fields that are at fault.
struct Search<'a> {
    path: String,
    /// How many fields were met.
    fields: usize,
    /// Of each fault, the first two fields with its path.
    places: Vec<Vec<usize>>,
    /// Which faults have a path.
    wanted: BTreeMap<&'a str, Vec<usize>>,
}

impl Search<'_> {
    fn meet(&mut self) {
        self.fields += 1;
        for index in self.wanted.get(&*self.path).into_iter().flatten() {
            let places = &mut self.places[*index];
            if places.len() < 2 {
                places.push(self.fields);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Find<'a, 'b>(&'a RefCell<Search<'b>>);

impl Find<'_, '_> {
    /// Goes on below a step of the path.
    fn below<T>(self, step: &str, go_on: impl FnOnce() -> T) -> T {
        let length = self.0.borrow().path.len();
        if length > 0 && !step.starts_with('[') {
            self.0.borrow_mut().path.push('.');
        }
        self.0.borrow_mut().path.push_str(step);
        let found = go_on();
        self.0.borrow_mut().path.truncate(length);
        found
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while self
            .below(&format!("[{index}]"), || items.next_element_seed(self))?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            self.below(&name, || {
                self.0.borrow_mut().meet();
                members.next_value_seed(self)
            })?;
        }
        Ok(())
    }
}

/// The body as text, or what is wrong with it in the words of the parser.
fn text(body: &[u8]) -> Result<&str, serde_json::Error> {
    str::from_utf8(body).map_err(|why| {
        let found = serde_json::from_slice::<Value>(body).err();
        found.unwrap_or_else(|| serde_json::Error::custom(why))
    })
}

/// The first document of a stream, as upstream reads it.
pub(crate) fn yaml(body: &[u8]) -> Result<Read, String> {
    let text = str::from_utf8(body).map_err(|why| why.to_string())?;
    let first = api::yaml::first_document(text).map_err(|why| why.to_string())?;
    let Some(document) = first else {
        return json(b"null").map_err(|why| why.to_string());
    };
    let read = json(document.json.as_bytes()).map_err(|why| why.to_string())?;
    Ok(Read {
        duplicates: document.repetitions().into_iter().collect(),
        ..read
    })
}

/// Whether a value has no more levels of lists and objects than these.
pub(crate) fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(map) => {
            levels > 0 && map.values().all(|member| is_shallow(member, levels - 1))
        }
        Value::Array(list) => levels > 0 && list.iter().all(|item| is_shallow(item, levels - 1)),
        _ => true,
    }
}

/// Why a value that no parser has bounded is more than may be worked with.
pub(crate) fn excess(value: &Value) -> Option<&'static str> {
    if !is_shallow(value, MAX_DEPTH) {
        return Some(TOO_DEEP);
    }
    (nodes(value) > MAX_NODES).then_some(TOO_MANY)
}

fn nodes(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(nodes).sum::<usize>(),
        Value::Array(list) => 1 + list.iter().map(nodes).sum::<usize>(),
        _ => 0,
    }
}

/// The levels of lists and objects in JSON text, without a stack that grows with them.
pub(crate) fn depth_of(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Where the reader is, as a list that lives on the stack: nothing is built unless it is needed.
enum Place<'a> {
    Top,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// Whether this is an entry of an object's managed fields.
    fn is_managed_fields_entry(&self) -> bool {
        let Place::Item(Place::Field(Place::Field(Place::Top, metadata), list), _) = self else {
            return false;
        };
        (*metadata, *list) == ("metadata", "managedFields")
    }

    fn write(&self, out: &mut String) {
        match self {
            Place::Top => {}
            Place::Field(outer, name) => {
                outer.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Place::Item(outer, index) => {
                outer.write(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }
}

struct Seed<'a> {
    place: &'a Place<'a>,
    /// How many levels there may still be.
    levels: usize,
    /// How many lists and objects there may still be.
    nodes: &'a Cell<usize>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'a> Seed<'a> {
    fn top(duplicates: &'a RefCell<Vec<String>>, nodes: &'a Cell<usize>) -> Seed<'a> {
        Seed {
            place: &Place::Top,
            levels: MAX_DEPTH,
            nodes,
            duplicates,
        }
    }

    fn level_below<E: Error>(&self) -> Result<usize, E> {
        let left = self.nodes.get().checked_sub(1);
        self.nodes.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        self.levels
            .checked_sub(1)
            .ok_or_else(|| E::custom(TOO_DEEP))
    }

    fn duplicate(&self, name: &str) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() < MAX_NAMED {
            let mut path = String::new();
            Place::Field(self.place, name).write(&mut path);
            duplicates.push(path);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let levels = self.level_below()?;
        let mut list = Vec::new();
        loop {
            let place = Place::Item(self.place, list.len());
            let seed = Seed {
                place: &place,
                levels,
                nodes: self.nodes,
                duplicates: self.duplicates,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let levels = self.level_below()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let place = Place::Field(self.place, &name);
            let value = if name == "fieldsV1" && self.place.is_managed_fields_entry() {
                let fields: &RawValue = members.next_value()?;
                Value::from(fields.get())
            } else {
                members.next_value_seed(Seed {
                    place: &place,
                    levels,
                    nodes: self.nodes,
                    duplicates: self.duplicates,
                })?
            };
            match map.entry(name) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(mut place) => {
                    self.duplicate(place.key());
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, value: &str, duplicates: &[&str]) {
        let read = json(text.as_bytes()).unwrap();
        assert_eq!(read.value.to_string(), value, "{text}");
        assert_eq!(read.duplicates, duplicates, "{text}");
    }

    #[test]
    fn duplicates_are_named_by_their_path_and_the_last_one_wins() {
        check(
            r#"{"a":1,"b":[{"c":1,"c":2}],"a":null}"#,
            r#"{"a":null,"b":[{"c":2}]}"#,
            &["b[0].c", "a"],
        );
        check(r#"[-1,1.5,true,"x"]"#, r#"[-1,1.5,true,"x"]"#, &[]);
    }

    #[test]
    fn managed_fields_are_left_as_text_where_they_are_and_nowhere_else() {
        check(
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"b":{}, "b":1}}],"fieldsV1":{}}}"#,
            r#"{"metadata":{"fieldsV1":{},"managedFields":[{"fieldsV1":"{\"b\":{}, \"b\":1}"}]}}"#,
            &[],
        );
        check(
            r#"{"spec":{"managedFields":[{"fieldsV1":{}}]}}"#,
            r#"{"spec":{"managedFields":[{"fieldsV1":{}}]}}"#,
            &[],
        );
    }

    #[test]
    fn faults_are_sorted_by_where_they_are_in_the_text() {
        let body = br#"{"z": 1, "a": [{"y": 1, "b": 1}, {"b": 1, "b": 2}], "z": 2, "c": 1, "k": 1, "k": 1}"#;
        let fault = |path: &str, is_repeated| Fault {
            path: path.to_owned(),
            is_repeated,
            source: Source::Json,
        };
        let mut faults = vec![
            fault("c", false),
            fault("a[1].b", true),
            fault("a[0].b", false),
            fault("a[0].y", false),
            fault("k", true),
            fault("z", false),
        ];
        sort_by_place(body, &mut faults);
        let order: Vec<&str> = faults.iter().map(|fault| &*fault.path).collect();
        assert_eq!(order, ["z", "a[0].y", "a[0].b", "a[1].b", "c", "k"]);
    }

    #[test]
    fn yaml_reads_alike() {
        let read = yaml(b"a: {x: 1}\na: {x: 2}\n").unwrap();
        assert_eq!(read.value.to_string(), r#"{"a":{"x":2}}"#);
        let twice = "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map";
        assert_eq!(read.duplicates, [twice]);
        let read = yaml(b"mode: 0755\non: yes\n---\nb: 1\n").unwrap();
        assert_eq!(read.value.to_string(), r#"{"mode":493,"true":true}"#);
    }

    #[test]
    fn depth_is_limited() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(json(nested(MAX_DEPTH).as_bytes()).is_ok());
        for levels in [MAX_DEPTH + 1, 200, 100_000] {
            let why = json(nested(levels).as_bytes()).unwrap_err().to_string();
            assert!(why.starts_with(TOO_DEEP), "{why}");
            assert!(yaml(nested(levels).as_bytes()).is_err());
        }
    }

    #[test]
    fn lists_and_objects_are_counted() {
        let many = |count: usize| format!("[{}1]", "{},".repeat(count - 1));
        let read = json(many(MAX_NODES).as_bytes()).unwrap();
        assert_eq!(excess(&read.value), None);
        let why = json(many(MAX_NODES + 1).as_bytes())
            .unwrap_err()
            .to_string();
        assert!(why.starts_with(TOO_MANY), "{why}");
        assert!(yaml(many(MAX_NODES + 1).as_bytes()).is_err());
        let value: Value = serde_json::from_str(&many(MAX_NODES + 1)).unwrap();
        assert_eq!(excess(&value), Some(TOO_MANY));
        // Numbers and texts are small.
        let plain = format!("[{}1]", "0,".repeat(2 * MAX_NODES));
        assert!(json(plain.as_bytes()).is_ok());
    }

    #[test]
    fn depth_of_text_is_that_of_its_value() {
        for (text, depth) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[{}],"b":{}}"#, 3),
            (r#"{"[[[\"[[":"{{\\"}"#, 1),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(depth_of(text), depth, "{text}");
            assert!(is_shallow(&value, depth), "{text}");
            assert!(depth == 0 || !is_shallow(&value, depth - 1), "{text}");
        }
        assert_eq!(depth_of(&"[".repeat(1_000_000)), 1_000_000);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = json(&bytes);
            let _ = yaml(&bytes);
        }

        #[test]
        fn what_parses_parses_as_everywhere(text in "[\\[\\]{}:,\"a0-9.e\\\\ -]{0,60}") {
            let plain = serde_json::from_str::<Value>(&text).ok();
            proptest::prop_assert_eq!(json(text.as_bytes()).ok().map(|read| read.value), plain);
        }
    }
}
