//! What the fields of every built-in type are: names, types, merge keys, list types, protobuf numbers.
//!
//! Strategic merge patches, server-side apply, unknown-field checks, OpenAPI and protobuf all ask
//! the same questions about a type, and kube-apiserver's OpenAPI answers them. The answers are in
//! one generated text file (`schema/types.txt`, by `cargo xtask schema`), parsed once on first use.
//!
//! The file: a line per type (`api.apps.v1.Deployment apps/v1/Deployment`; `atomic` when the whole
//! object has one owner in server-side apply; `embedded` when it exists in protobuf only), then an
//! indented line per field: JSON name, protobuf number (0: none), shape, flags. `~` as the name is a
//! protobuf member whose own fields belong to the type around it in JSON. Shapes: `s` string, `i`
//! int32, `l` int64, `d` double, `b` boolean, `y` bytes, `Q` quantity, `I` integer or string, `T`
//! time, `M` microsecond time, `R` raw extension, `F` managed fields, `a` anything, `[` list of, `{`
//! map of, `@` a type (`@.Name` in the same package). Flags: `*` absent and zero differ, `+` printed
//! even when empty, `!` required, `p:` patch strategy, `k:` patch merge key, `l:` list type, `K:` list
//! map keys, `m:` map type, `e:` enum, `=` default.

mod decode;
mod lookup;
mod parse;
#[cfg(test)]
mod tests;

use api::collections::HashMap;
use std::ops::Deref;
use std::sync::LazyLock;

use lookup::Lookup;

pub use decode::{DecodeError, Decoded, decode, empty};
pub(crate) use decode::{is_rfc3339, json_type};

/// The type of the objects of a kind, `None` for a kind that is not built in.
pub fn type_for(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let index = TABLES.by_kind.get(&(group, version, kind))?;
    TABLES.types.get(usize::from(*index))
}

/// A type by its OpenAPI name, such as `io.k8s.api.core.v1.PodSpec`.
pub fn type_named(name: &str) -> Option<&'static Type> {
    let short = name.strip_prefix("io.k8s.")?;
    let index = TABLES
        .types
        .binary_search_by(|candidate| candidate.name.cmp(short))
        .ok()?;
    TABLES.types.get(index)
}

/// All types in the order of their names, without those that exist only in protobuf.
pub fn types() -> impl Iterator<Item = &'static Type> {
    TABLES.types.iter().filter(|candidate| !candidate.embedded)
}

/// All types including the embedded ones, in the order of [`Type::index`].
pub(crate) fn all_types() -> impl Iterator<Item = &'static Type> {
    TABLES.types.iter()
}

/// One type: a JSON object with known fields.
#[derive(Debug)]
pub struct Type {
    /// The OpenAPI name without its leading `io.k8s.`; [`Type::full_name`] has it.
    pub name: &'static str,
    index: TypeRef,
    /// Set for top-level kinds.
    pub gvk: Option<GroupVersionKind>,
    /// In server-side apply the object has one owner as a whole.
    pub atomic: bool,
    /// A Go struct embedded in others: it is a protobuf message but no JSON object.
    pub embedded: bool,
    /// Sorted by name.
    pub fields: Box<[Field]>,
    /// Finds a field by its name: every member of every object that is written is looked up several times.
    lookup: Lookup,
    /// Protobuf members whose fields are fields of this type in JSON.
    pub inlined: Box<[(u32, TypeRef)]>,
}

impl Type {
    pub fn field(&self, name: &str) -> Option<&Field> {
        let place = self.lookup.find(name, |place| self.fields[place].name)?;
        Some(&self.fields[place])
    }

    /// The place of this type among all of them.
    pub(crate) fn index(&self) -> usize {
        usize::from(self.index.0)
    }

    /// The name in OpenAPI documents.
    pub fn full_name(&self) -> String {
        format!("io.k8s.{}", self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupVersionKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

/// One field of a [`Type`].
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    /// The protobuf field number, 0 for fields that protobuf carries elsewhere (`kind`, embedded ones).
    pub number: u32,
    pub ty: Shape,
    /// Absent and zero are different things (a pointer in Go): an empty value is kept.
    pub pointer: bool,
    /// Printed even when it is empty, as zero, `""`, `{}` or `null`.
    pub always: bool,
    pub required: bool,
    pub patch_strategy: PatchStrategy,
    /// The key by which strategic merge patches match list items.
    pub merge_key: Option<&'static str>,
    /// How server-side apply sees a list. It may differ from the patch strategy.
    pub list_type: ListType,
    /// How server-side apply sees a map or object, where the field overrides its type.
    pub map_type: Option<MapType>,
    pub enum_values: Box<[&'static str]>,
    /// The default that OpenAPI announces, as JSON text. Server-side apply needs it for list keys;
    /// the defaults of objects are in [`crate::defaults`].
    pub default: Option<&'static str>,
}

/// What values a field has.
#[derive(Debug, Clone)]
pub enum Shape {
    Ref(TypeRef),
    List(Box<Shape>),
    Map(Box<Shape>),
    String,
    /// An integer of 32 bits.
    Integer,
    /// An integer of 64 bits.
    Long,
    Number,
    Boolean,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Bytes,
    /// An embedded object of any kind, kept as it is.
    Raw,
    /// `managedFields[].fieldsV1`.
    FieldsV1,
    Any,
}

/// A reference to another type: types refer to each other in circles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeRef(u16);

impl Deref for TypeRef {
    type Target = Type;

    fn deref(&self) -> &'static Type {
        &TABLES.types[usize::from(self.0)]
    }
}

impl TypeRef {
    /// The type itself, for longer than the reference lives.
    pub fn get(self) -> &'static Type {
        &TABLES.types[usize::from(self.0)]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatchStrategy {
    #[default]
    None,
    Merge,
    Replace,
    RetainKeys,
    MergeRetainKeys,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Box<[&'static str]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapType {
    Atomic,
    Granular,
}

struct Tables {
    /// Sorted by name, so that a reference is an index.
    types: Vec<Type>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), u16>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    parse::tables(include_str!("../../../../schema/types.txt"))
        .expect("the generated table is well-formed: a test reads it")
});
