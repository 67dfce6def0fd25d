//! Validation of custom objects against their schema. Mirrors `kube-openapi/pkg/validation/validate`: the order of
//! checks, which of them go on after a failure, and the words.

use super::enumeration::{Enumeration, LONG_ENUMERATION, equals};
use super::faults::{Faults, go_float, shown};
use super::{formats, join, member};
use crate::crd::schema::Ready;
use crate::status::Cause;
use api::syntax::go_quote;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What is wrong with a value by a part of a ready schema: the object's whole schema, or that of its status. What
/// `old` had already and nobody changed is let through.
pub(crate) fn validate(
    ready: &Ready,
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let place = Place {
        path: "",
        structure: Some(schema),
        old,
    };
    let checker = Checker {
        ready,
        enumerations: RefCell::default(),
        listed: Cell::new(0),
    };
    checker.ratcheted(schema, value, &place).into_causes()
}

struct Checker<'a> {
    ready: &'a Ready,
    /// Those that are long, by where they are.
    enumerations: RefCell<BTreeMap<*const Value, Enumeration>>,
    /// How many faults name all the values that there might have been.
    listed: Cell<usize>,
}

/// Where a value is, and what was there before.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a str,
    /// The part of the structure that the value belongs to, also within `anyOf` and its kin: it says which items of old
    /// and new lists belong together.
    structure: Option<&'a Value>,
    old: Option<&'a Value>,
}

/// So many faults name all supported values: they are not said a second time for each item of a long list.
const MAX_LISTED: usize = 16;

impl Checker<'_> {
    /// Checks a value that may have been there before.
    fn ratcheted(&self, schema: &Value, value: &Value, place: &Place<'_>) -> Faults {
        let mut faults = self.check(schema, value, place);
        if !faults.is_empty() && place.old.is_some_and(|old| old == value) {
            faults.forgive();
        }
        faults
    }

    fn check(&self, schema: &Value, value: &Value, place: &Place<'_>) -> Faults {
        let path = place.path;
        let types = Types::of(schema);
        let mut faults = Faults::default();
        if value.is_null() {
            self.check_null(schema, &types, path, &mut faults);
            return faults;
        }
        if !types.names.is_empty() || types.format.is_some() {
            types.check(value, path, &mut faults);
            faults.matches += 1;
        }
        faults.merge(self.check_combinations(schema, value, place));
        faults.matches += 1;
        match value {
            Value::String(text) => self.check_string(schema, &types, text, path, &mut faults),
            Value::Number(_) => {
                check_number(schema, &types, value, path, &mut faults);
                faults.matches += 2;
            }
            Value::Array(items) => {
                self.check_list(schema, items, place, &mut faults);
                faults.matches += 2;
            }
            _ => {}
        }
        self.check_enum(schema, value, path, &mut faults);
        faults.matches += 1;
        if let Value::Object(members) = value {
            self.check_object(schema, members, place, &mut faults);
            faults.matches += 1;
        }
        faults.matches += 1;
        faults
    }

    fn check_null(&self, schema: &Value, types: &Types<'_>, path: &str, faults: &mut Faults) {
        if !types.names.is_empty() && schema["nullable"] != true {
            faults.wrong_type(path, &types.names.join(","), "null");
        } else {
            faults.matches += 1;
        }
        // UPSTREAM: null is no value of any enumeration, whether or not it is allowed.
        self.check_enum(schema, &Value::Null, path, faults);
    }

    fn check_enum(&self, schema: &Value, value: &Value, path: &str, faults: &mut Faults) {
        let Some(values) = schema["enum"].as_array().filter(|list| !list.is_empty()) else {
            return;
        };
        let is_one_of_them = match values.len() > LONG_ENUMERATION {
            true => {
                let mut known = self.enumerations.borrow_mut();
                let all = known.entry(values.as_ptr());
                all.or_insert_with(|| Enumeration::of(values)).has(value)
            }
            false => values.iter().any(|allowed| equals(allowed, value)),
        };
        if !is_one_of_them {
            let listed = self.listed.get();
            self.listed.set(listed + 1);
            let shown = match listed < MAX_LISTED {
                true => values.as_slice(),
                false => &values[..values.len().min(LONG_ENUMERATION)],
            };
            faults.unsupported(path, value, shown);
        }
    }

    /// The first of these that fails is the one that is spoken of; the format is apart.
    fn check_string(
        &self,
        schema: &Value,
        types: &Types<'_>,
        text: &str,
        path: &str,
        faults: &mut Faults,
    ) {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let fails = |pattern: &str| {
            let compiled = self.ready.pattern(pattern);
            compiled.is_some_and(|compiled| !compiled.is_match(text))
        };
        let (most, least) = (integer(schema, "maxLength"), integer(schema, "minLength"));
        let pattern = schema["pattern"].as_str().filter(|text| !text.is_empty());
        if let Some(most) = most.filter(|most| length > *most) {
            faults.too_long(path, most);
        } else if let Some(least) = least.filter(|least| length < *least) {
            let why = format!("should be at least {least} chars long");
            faults.invalid(path, &go_quote(text), &why);
        } else if let Some(pattern) = pattern.filter(|pattern| fails(pattern)) {
            faults.invalid(path, &go_quote(text), &format!("should match '{pattern}'"));
        }
        faults.matches += 1;
        if let Some(format) = &types.format
            && types.is_string()
        {
            if !formats::fits(format, text) {
                faults.wrong_type(path, types.written, text);
            }
            faults.matches += 1;
        }
    }

    fn check_list(&self, schema: &Value, items: &[Value], place: &Place<'_>, faults: &mut Faults) {
        if let Some(below) = schema.get("items").filter(|below| below.is_object()) {
            let partners = Partners::of(place);
            let structure = place.structure.and_then(|schema| schema.get("items"));
            for (index, item) in items.iter().enumerate() {
                let place = Place {
                    path: &format!("{}[{index}]", place.path),
                    structure,
                    old: partners.old_of(item),
                };
                faults.merge(self.ratcheted(below, item, &place));
            }
        }
        let count = items.len();
        let size = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(least) = integer(schema, "minItems").filter(|least| size < *least) {
            let why = format!("should have at least {least} items");
            faults.invalid(place.path, &count.to_string(), &why);
        }
        if let Some(most) = integer(schema, "maxItems").filter(|most| size > *most) {
            faults.too_many(place.path, count, most, "items");
        }
        if schema["uniqueItems"] == true {
            let mut seen = std::collections::BTreeSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                faults.invalid(place.path, "\"\"", "shouldn't contain duplicates");
            }
        }
    }

    fn check_object(
        &self,
        schema: &Value,
        members: &Map<String, Value>,
        place: &Place<'_>,
        faults: &mut Faults,
    ) {
        let path = place.path;
        let size = i64::try_from(members.len()).unwrap_or(i64::MAX);
        if let Some(least) = integer(schema, "minProperties").filter(|least| size < *least) {
            let why = format!("should have at least {least} properties");
            faults.invalid(path, &size.to_string(), &why);
        }
        if let Some(most) = integer(schema, "maxProperties").filter(|most| size > *most) {
            faults.too_many(path, members.len(), most, "properties");
        }
        let properties = &schema["properties"];
        let others = members
            .iter()
            .filter(|(name, _)| properties.get(*name).is_none());
        for (name, value) in others {
            // UPSTREAM: here a dot comes first even at the root.
            let path = format!("{path}.{name}");
            match &schema["additionalProperties"] {
                Value::Bool(false) => {
                    let sentence = format!("{path} in body is a forbidden property");
                    faults.stated(place.path, &go_quote(name), sentence);
                }
                below @ Value::Object(_) => {
                    faults.merge(self.check_member(below, name, value, &path, place));
                }
                _ => {}
            }
        }
        for (name, below) in properties.as_object().into_iter().flatten() {
            if let Some(value) = members.get(name) {
                let path = join(path, name);
                faults.merge(self.check_member(below, name, value, &path, place));
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !members.contains_key(name) {
                faults.required(&format!("{path}.{name}"));
            }
        }
    }

    fn check_member(
        &self,
        schema: &Value,
        name: &str,
        value: &Value,
        path: &str,
        outer: &Place<'_>,
    ) -> Faults {
        // The type of an object is the same on both sides, whatever was sent.
        let is_type = outer.path.is_empty() && matches!(name, "kind" | "apiVersion");
        let place = Place {
            path,
            structure: outer.structure.and_then(|schema| member(schema, name)),
            old: outer.old.and_then(|old| old.get(name)).filter(|_| !is_type),
        };
        self.ratcheted(schema, value, &place)
    }

    fn check_combinations(&self, schema: &Value, value: &Value, place: &Place<'_>) -> Faults {
        let mut faults = Faults::default();
        let parts = |name: &str| schema[name].as_array().filter(|list| !list.is_empty());
        let quoted = go_quote(place.path);
        if let Some(list) = parts("anyOf") {
            let (mut best, mut fitting) = (None, None);
            for part in list {
                let found = self.check(part, value, place);
                if found.is_empty() {
                    fitting = Some(found);
                    break;
                }
                keep_best(&mut best, found);
            }
            if fitting.is_none() {
                faults.pathless(format!(
                    "{quoted} must validate at least one schema (anyOf)"
                ));
            }
            fitting
                .or(best)
                .into_iter()
                .for_each(|found| faults.merge(found));
        }
        if let Some(list) = parts("oneOf") {
            let (mut best, mut fitting, mut count) = (None, None, 0);
            for part in list {
                let found = self.check(part, value, place);
                if found.is_empty() {
                    count += 1;
                    fitting.get_or_insert(found);
                } else if count == 0 {
                    keep_best(&mut best, found);
                }
            }
            if count == 1 {
                fitting.into_iter().for_each(|found| faults.merge(found));
            } else {
                let found = match count {
                    0 => "Found none valid".to_owned(),
                    count => format!("Found {count} valid alternatives"),
                };
                let sentence =
                    format!("{quoted} must validate one and only one schema (oneOf). {found}");
                faults.pathless(sentence);
                let best = best.filter(|_| count == 0);
                best.into_iter().for_each(|found| faults.merge(found));
            }
        }
        if let Some(list) = parts("allOf") {
            let mut fitting = 0;
            for part in list {
                let found = self.check(part, value, place);
                fitting += usize::from(found.is_empty());
                faults.merge(found);
            }
            if fitting != list.len() {
                let none = if fitting == 0 { ". None validated" } else { "" };
                faults.pathless(format!(
                    "{quoted} must validate all the schemas (allOf){none}"
                ));
            }
        }
        let not = &schema["not"];
        if not.is_object() && self.check(not, value, place).is_empty() {
            faults.pathless(format!("{quoted} must not validate the schema (not)"));
        }
        faults.matches += 1;
        faults
    }
}

/// Of several that fail, the first of those that got furthest.
fn keep_best(best: &mut Option<Faults>, found: Faults) {
    if best
        .as_ref()
        .is_none_or(|best| found.matches > best.matches)
    {
        *best = Some(found);
    }
}

/// The types and the format that a schema asks for.
struct Types<'a> {
    names: Vec<&'a str>,
    /// As far as it is enforced.
    format: Option<String>,
    /// As it is written.
    written: &'a str,
}

impl<'a> Types<'a> {
    fn of(schema: &'a Value) -> Types<'a> {
        let kind = schema["type"].as_str().filter(|kind| !kind.is_empty());
        let names = match kind {
            _ if schema["x-kubernetes-int-or-string"] == true => vec!["integer", "string"],
            kind => kind.into_iter().collect(),
        };
        let single = kind.filter(|_| names.len() == 1);
        let format = schema["format"].as_str().filter(|name| !name.is_empty());
        Types {
            format: format.and_then(|format| formats::enforced(format, single)),
            written: format.unwrap_or_default(),
            names,
        }
    }

    /// Whether its format is one of strings.
    fn is_string(&self) -> bool {
        !matches!(self.names.as_slice(), ["integer"] | ["number"])
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    fn check(&self, value: &Value, path: &str, faults: &mut Faults) {
        let (kind, format) = kind_of(value);
        let is_whole = kind == "number" && value.as_f64().is_some_and(is_json_integer);
        let fits = self.has(kind)
            || (is_whole && self.has("integer"))
            || (kind == "integer" && self.has("number"));
        let is_text = matches!(value, Value::String(_) | Value::Array(_));
        let is_numeric = self.has("number") || self.has("integer");
        match &self.format {
            Some(_) if !is_text && !fits && self.written != format => {
                faults.wrong_type(path, self.written, format);
            }
            // UPSTREAM: a format stands for the type of texts and lists.
            Some(_) if is_text && !is_numeric => faults.matches += 1,
            _ if !fits => faults.wrong_type(path, &self.names.join(","), kind),
            _ => faults.matches += 1,
        }
    }
}

/// A value's type, and the format that upstream takes its Go type for.
fn kind_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn is_json_integer(float: f64) -> bool {
    // The largest whole number that JSON's readers agree on.
    const MOST: f64 = 9_007_199_254_740_991.0;
    const CLOSE: f64 = 1e-9;
    let whole = float.trunc();
    let apart = (float - whole).abs() / (float.abs() + whole.abs());
    float.abs() <= MOST && (float == whole || (whole != 0.0 && apart < CLOSE))
}

fn integer(schema: &Value, name: &str) -> Option<i64> {
    let number = schema.get(name)?;
    number
        .as_i64()
        .or(number.as_f64().map(|float| float as i64))
}

fn check_number(schema: &Value, types: &Types<'_>, value: &Value, path: &str, faults: &mut Faults) {
    let kind = match types.names.as_slice() {
        [kind @ ("integer" | "number")] => kind,
        _ => "",
    };
    let format = types.format.as_deref().filter(|_| !kind.is_empty());
    // Whether a number can be of the type at all; upstream says so of the value and of its limits.
    let in_range = |number: f64, exact: Option<i64>| match (kind, format) {
        ("integer", Some("int32")) => match exact {
            Some(exact) => i32::try_from(exact).is_ok(),
            None => number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX),
        },
        ("integer", _) => exact.is_some() || (number.fract() == 0.0 && number.abs() < 9.2e18),
        (_, Some("float")) => number.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    let check_range = |what: &str, number: f64, exact: Option<i64>, faults: &mut Faults| {
        let fits = in_range(number, exact);
        if !fits {
            let kind = if kind.is_empty() { "number" } else { kind };
            let sentence = match format {
                Some(format) => {
                    format!("{what} value must be of type {kind} with format {format} in {path}")
                }
                None => format!("{what} value must be of type {kind} (default format) in {path}"),
            };
            faults.pathless(sentence);
        }
        fits
    };
    let number = value.as_f64().unwrap_or_default();
    let whole = value.as_i64();
    check_range("Checked", number, whole, faults);
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let Some(factor) = limit("multipleOf") {
        let fits = check_range("MultipleOf", factor, None, faults);
        check_multiple(factor, number, whole.filter(|_| fits), value, path, faults);
    }
    let bounds = [
        ("minimum", "Minimum boundary", "exclusiveMinimum", "greater"),
        ("maximum", "Maximum boundary", "exclusiveMaximum", "less"),
    ];
    for (name, what, exclusive, word) in bounds {
        let Some(bound) = limit(name) else { continue };
        let exact = whole.filter(|_| check_range(what, bound, None, faults));
        let exclusive = schema[exclusive] == true;
        let (order, bound) = match exact {
            // UPSTREAM: limits of whole numbers are cut to whole numbers.
            Some(exact) => (Some(exact.cmp(&(bound as i64))), (bound as i64).to_string()),
            None => (number.partial_cmp(&bound), go_float(bound)),
        };
        let beyond = if name == "minimum" {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Greater
        };
        let fails = order.is_some_and(|order| order == beyond || (exclusive && order.is_eq()));
        if fails {
            let or_equal = if exclusive { "" } else { " or equal to" };
            faults.invalid(
                path,
                &shown(value),
                &format!("should be {word} than{or_equal} {bound}"),
            );
        }
    }
}

fn check_multiple(
    factor: f64,
    number: f64,
    whole: Option<i64>,
    value: &Value,
    path: &str,
    faults: &mut Faults,
) {
    let (factor, is_positive, is_multiple) = match whole {
        Some(whole) => {
            let factor = factor as i64;
            let is_multiple = factor != 0 && whole.checked_rem(factor) == Some(0);
            (factor.to_string(), factor > 0, is_multiple)
        }
        None => {
            let quotient = if factor < 1.0 {
                1.0 / factor * number
            } else {
                number / factor
            };
            (go_float(factor), factor > 0.0, is_json_integer(quotient))
        }
    };
    if !is_positive {
        let sentence = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        faults.stated(path, &factor, sentence);
    } else if !is_multiple {
        faults.invalid(
            path,
            &shown(value),
            &format!("should be a multiple of {factor}"),
        );
    }
}

/// The old items of a list that can be told to belong to new ones: those of a list of type map.
struct Partners<'a> {
    keys: Vec<&'a str>,
    old: BTreeMap<Vec<String>, &'a Value>,
}

impl<'a> Partners<'a> {
    fn of(place: &Place<'a>) -> Partners<'a> {
        let structure = place
            .structure
            .filter(|schema| schema["x-kubernetes-list-type"] == "map");
        let keys = structure.and_then(|schema| schema["x-kubernetes-list-map-keys"].as_array());
        let keys: Vec<&str> = keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let old = place
            .old
            .and_then(Value::as_array)
            .filter(|_| !keys.is_empty());
        let old = old
            .into_iter()
            .flatten()
            .map(|item| (key_of(item, &keys), item))
            .collect();
        Partners { keys, old }
    }

    fn old_of(&self, item: &Value) -> Option<&'a Value> {
        if self.old.is_empty() {
            return None;
        }
        self.old.get(&key_of(item, &self.keys)).copied()
    }
}

fn key_of(item: &Value, keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| item[*key].to_string()).collect()
}
