//! The reader of the generated table. It fails only if the generator is wrong, and says where.

use api::collections::HashMap;

use super::lookup::Lookup;
use super::{
    Field, GroupVersionKind, ListType, MapType, PatchStrategy, Shape, Tables, Type, TypeRef,
};

/// Parses the whole table. Types come sorted by name; references are resolved by binary search.
pub(super) fn tables(text: &'static str) -> Result<Tables, String> {
    let mut names = Vec::new();
    for line in text.lines().filter(|line| is_type(line)) {
        names.push(line.split(' ').next().unwrap_or_default());
    }
    if !names.is_sorted() {
        return Err("the types are not sorted".to_owned());
    }
    let mut types = Vec::with_capacity(names.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !is_type(line) {
            continue;
        }
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut built = Type {
            name,
            index: TypeRef(position(types.len())?),
            gvk: None,
            atomic: false,
            embedded: false,
            fields: Box::default(),
            lookup: Lookup::default(),
            inlined: Box::default(),
        };
        for word in words {
            match word {
                "atomic" => built.atomic = true,
                "embedded" => built.embedded = true,
                gvk => built.gvk = Some(group_version_kind(gvk)?),
            }
        }
        let (mut fields, mut inlined) = (Vec::new(), Vec::new());
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            let mut reader = FieldReader {
                names: &names,
                package: package(name),
            };
            if let Some(inline) = line.strip_prefix(" ~ ") {
                inlined.push(reader.inline(inline)?);
            } else {
                fields.push(reader.field(line)?);
            }
        }
        fields.sort_by_key(|field: &Field| field.name);
        let own: Vec<&str> = fields.iter().map(|field| field.name).collect();
        built.lookup = Lookup::new(&own).ok_or("a type has more than 255 fields")?;
        built.fields = fields.into_boxed_slice();
        built.inlined = inlined.into_boxed_slice();
        types.push(built);
    }
    let mut by_kind = HashMap::default();
    for (index, built) in types.iter().enumerate() {
        if let Some(gvk) = built.gvk {
            by_kind.insert((gvk.group, gvk.version, gvk.kind), position(index)?);
        }
    }
    Ok(Tables { types, by_kind })
}

fn is_type(line: &str) -> bool {
    !line.starts_with([' ', '#']) && !line.is_empty()
}

fn package(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(package, _)| package)
}

fn position(index: usize) -> Result<u16, String> {
    u16::try_from(index).map_err(|_| "more types than a reference can count".to_owned())
}

fn group_version_kind(text: &'static str) -> Result<GroupVersionKind, String> {
    let mut parts = text.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), Some(kind)) => Ok(GroupVersionKind {
            group,
            version,
            kind,
        }),
        _ => Err(format!("`{text}` is no group/version/kind")),
    }
}

struct FieldReader<'a> {
    names: &'a [&'static str],
    package: &'a str,
}

impl FieldReader<'_> {
    fn inline(&mut self, line: &'static str) -> Result<(u32, TypeRef), String> {
        let (number, reference) = line
            .split_once(" @")
            .ok_or_else(|| format!("odd embedded member `{line}`"))?;
        Ok((
            number
                .parse()
                .map_err(|_| format!("odd number in `{line}`"))?,
            self.reference(reference)?,
        ))
    }

    fn field(&mut self, line: &'static str) -> Result<Field, String> {
        let mut words = line.trim_start().split(' ');
        let (Some(name), Some(number), Some(shape)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("odd field `{line}`"));
        };
        let mut field = Field {
            name,
            number: number
                .parse()
                .map_err(|_| format!("odd number in `{line}`"))?,
            ty: self.shape(shape)?,
            pointer: false,
            always: false,
            required: false,
            patch_strategy: PatchStrategy::None,
            merge_key: None,
            list_type: ListType::Atomic,
            map_type: None,
            enum_values: Box::default(),
            default: None,
        };
        for word in words {
            flag(&mut field, word).ok_or_else(|| format!("unknown flag `{word}` in `{line}`"))?;
        }
        Ok(field)
    }

    fn shape(&self, text: &'static str) -> Result<Shape, String> {
        if let Some(inner) = text.strip_prefix('[') {
            return Ok(Shape::List(Box::new(self.shape(inner)?)));
        }
        if let Some(inner) = text.strip_prefix('{') {
            return Ok(Shape::Map(Box::new(self.shape(inner)?)));
        }
        if let Some(name) = text.strip_prefix('@') {
            return Ok(Shape::Ref(self.reference(name)?));
        }
        Ok(match text {
            "s" => Shape::String,
            "i" => Shape::Integer,
            "l" => Shape::Long,
            "d" => Shape::Number,
            "b" => Shape::Boolean,
            "y" => Shape::Bytes,
            "Q" => Shape::Quantity,
            "I" => Shape::IntOrString,
            "T" => Shape::Time,
            "M" => Shape::MicroTime,
            "R" => Shape::Raw,
            "F" => Shape::FieldsV1,
            "a" => Shape::Any,
            other => return Err(format!("unknown shape `{other}`")),
        })
    }

    fn reference(&self, name: &str) -> Result<TypeRef, String> {
        let found = if name.starts_with('.') {
            let qualified = format!("{}{name}", self.package);
            self.names.binary_search(&qualified.as_str())
        } else {
            self.names.binary_search(&name)
        };
        let index = found
            .map_err(|_| format!("reference to the unknown type `{name}` in {}", self.package))?;
        Ok(TypeRef(position(index)?))
    }
}

fn flag(field: &mut Field, word: &'static str) -> Option<()> {
    match word {
        "!" => field.required = true,
        "*" => field.pointer = true,
        "+" => field.always = true,
        "*+" => (field.pointer, field.always) = (true, true),
        _ => return flag_with_value(field, word),
    }
    Some(())
}

fn flag_with_value(field: &mut Field, word: &'static str) -> Option<()> {
    if let Some(default) = word.strip_prefix('=') {
        field.default = Some(default);
        return Some(());
    }
    let (key, value) = word.split_once(':')?;
    match (key, value) {
        ("p", "merge") => field.patch_strategy = PatchStrategy::Merge,
        ("p", "replace") => field.patch_strategy = PatchStrategy::Replace,
        ("p", "retainKeys") => field.patch_strategy = PatchStrategy::RetainKeys,
        ("p", "merge,retainKeys") => field.patch_strategy = PatchStrategy::MergeRetainKeys,
        ("k", key) => field.merge_key = Some(key),
        ("l", "set") => field.list_type = ListType::Set,
        // The keys follow in a flag of their own.
        ("l", "map") => {}
        ("K", keys) => field.list_type = ListType::Map(keys.split(',').collect()),
        ("m", "atomic") => field.map_type = Some(MapType::Atomic),
        ("m", "granular") => field.map_type = Some(MapType::Granular),
        ("e", values) => field.enum_values = values.split('|').collect(),
        _ => return None,
    }
    Some(())
}
