//! Turns the OpenAPI documents of a kube-apiserver and the protobuf definitions of its types into
//! the compact tables under `schema/`.
//!
//! The embedded API server needs facts about some 600 types (field names and types, merge keys,
//! list types, required fields, protobuf numbers, which empty values are printed) and none of their
//! prose. The documents are megabytes, the tables are one small text file that parses in a
//! millisecond. Its format is described at the reader, `crates/apiserver/src/schema/mod.rs`.
//!
//! Input: folders that hold the documents of `/openapi/v3` (`*.json`) and the `generated.proto`
//! files of the Kubernetes API modules with the `types*.go` files beside them, in any depth.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::prose;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The file that [`run`] writes below the output folder.
pub(crate) const TABLE: &str = "types.txt";

/// Reads all documents below `inputs` and writes the tables into `output`.
pub(crate) fn run(inputs: &[PathBuf], output: &Path) -> Result<()> {
    let sources = Sources::below(inputs)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = output.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    write(TABLE, sources.print()?.as_bytes())?;
    write(prose::TABLE, &prose::compressed(&sources.schemas))
}

/// Fails if the table of `output` is not the one that these documents give.
pub(crate) fn check(inputs: &[PathBuf], output: &Path) -> Result<()> {
    let path = output.join(TABLE);
    let kept = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let sources = Sources::below(inputs)?;
    let made = sources.print()?;
    let words = output.join(prose::TABLE);
    let kept_words =
        std::fs::read(&words).with_context(|| format!("cannot read {}", words.display()))?;
    if !prose::is_of(&kept_words, &sources.schemas) {
        bail!(
            "{} is not what the live API server says; run `cargo xtask schema --live`",
            words.display()
        );
    }
    let differs = kept
        .lines()
        .zip(made.lines())
        .position(|(kept, made)| kept != made);
    match differs {
        None if kept == made => Ok(()),
        differs => bail!(
            "{} is not what the live API server gives (line {}); run `cargo xtask schema --live`",
            path.display(),
            differs.map_or(0, |line| line + 1)
        ),
    }
}

/// Everything that was read: OpenAPI schemas and protobuf messages by OpenAPI type name.
#[derive(Default)]
struct Sources {
    schemas: BTreeMap<String, Value>,
    messages: BTreeMap<String, Vec<Member>>,
    structs: BTreeMap<String, GoStruct>,
}

/// How a Go type prints its fields: what OpenAPI does not say.
#[derive(Default)]
struct GoStruct {
    fields: BTreeMap<String, GoField>,
    embedded: Vec<String>,
}

#[derive(Clone, Copy)]
struct GoField {
    /// Absent and zero are different things.
    pointer: bool,
    /// Printed even when it is empty.
    always: bool,
    /// Left out when zero although it is a struct.
    omit_zero: bool,
}

/// One field of a protobuf message.
#[derive(Clone)]
struct Member {
    name: String,
    number: u32,
    ty: String,
}

impl Sources {
    /// All that the documents below `inputs` say.
    fn below(inputs: &[PathBuf]) -> Result<Sources> {
        let mut sources = Sources::default();
        for input in inputs {
            sources.read(input)?;
        }
        if sources.schemas.is_empty() {
            bail!("no OpenAPI document found: name a folder with the documents of /openapi/v3");
        }
        if sources.messages.is_empty() {
            bail!(
                "no protobuf definition found: name a folder with the generated.proto files of k8s.io/api"
            );
        }
        Ok(sources)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        if path.ends_with("testdata") {
            return Ok(());
        }
        if path.is_dir() {
            let mut entries = std::fs::read_dir(path)
                .with_context(|| format!("cannot list {}", path.display()))?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()?;
            entries.sort();
            entries.iter().try_for_each(|entry| self.read(entry))?;
            return self.read_go_types(path);
        }
        let text = || {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {
                let document: Value = serde_json::from_str(&text()?)
                    .with_context(|| format!("{} is not JSON", path.display()))?;
                self.read_openapi(&document);
                Ok(())
            }
            Some("proto") => self.read_proto(&text()?),
            _ => Ok(()),
        }
    }

    fn read_openapi(&mut self, document: &Value) {
        let Some(schemas) = document["components"]["schemas"].as_object() else {
            return;
        };
        for (name, schema) in schemas {
            if is_stable(name) {
                self.schemas.insert(name.clone(), schema.clone());
            }
        }
    }

    /// The generated files have one declaration per line, which spares a real parser.
    fn read_proto(&mut self, text: &str) -> Result<()> {
        let mut package = String::new();
        let mut message = None;
        for line in text.lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            if let Some(name) = line.strip_prefix("package ") {
                package = openapi_package(name.trim_end_matches(';'));
            } else if let Some(name) = line.strip_prefix("message ") {
                message = Some(format!("{package}.{}", name.trim_end_matches('{').trim()));
            } else if line == "}" {
                message = None;
            } else if let (Some(message), Some(member)) = (&message, Member::parse(line)?)
                && is_stable(message)
            {
                self.messages
                    .entry(message.clone())
                    .or_default()
                    .push(member);
            }
        }
        Ok(())
    }

    /// The `types*.go` files of a folder with protobuf definitions: field tags only.
    fn read_go_types(&mut self, folder: &Path) -> Result<()> {
        let Ok(proto) = std::fs::read_to_string(folder.join("generated.proto")) else {
            return Ok(());
        };
        let package = proto.lines().find_map(|line| line.strip_prefix("package "));
        let package = openapi_package(package.unwrap_or_default().trim_end_matches(';'));
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if name.starts_with("types")
                && name.ends_with(".go")
                && !name.ends_with("_generated.go")
            {
                self.read_go(&package, &std::fs::read_to_string(&path)?);
            }
        }
        Ok(())
    }

    fn read_go(&mut self, package: &str, text: &str) {
        let mut current = None;
        for line in text.lines() {
            if let Some(name) = line
                .strip_prefix("type ")
                .and_then(|rest| rest.strip_suffix(" struct {"))
            {
                current = Some(format!("{package}.{name}"));
            } else if line == "}" {
                current = None;
            } else if let Some(current) = &current
                && let Some((declaration, tags)) = line.trim().split_once('`')
                && let Some((_, tag)) = tags.split_once("json:\"")
            {
                let mut options = tag.split('"').next().unwrap_or_default().split(',');
                let json_name = options.next().unwrap_or_default();
                let options: Vec<_> = options.collect();
                let built = self.structs.entry(current.clone()).or_default();
                if json_name.is_empty() {
                    built
                        .embedded
                        .push(format!("{package}.{}", declaration.trim()));
                    continue;
                }
                let ty = declaration.split_whitespace().nth(1).unwrap_or_default();
                let field = GoField {
                    pointer: ty.starts_with('*'),
                    always: !options.contains(&"omitempty"),
                    omit_zero: options.contains(&"omitzero"),
                };
                built.fields.insert(json_name.to_owned(), field);
            }
        }
    }

    fn go_field(&self, ty: &str, field: &str) -> Option<GoField> {
        let built = self.structs.get(ty)?;
        let inner = || {
            built
                .embedded
                .iter()
                .find_map(|embedded| self.go_field(embedded, field))
        };
        built.fields.get(field).copied().or_else(inner)
    }

    /// `*` for a pointer, `+` for a field that is printed even when empty.
    fn presence(&self, ty: &str, field: &str, shape: &str) -> &'static str {
        let Some(go) = self.go_field(ty, field) else {
            return "";
        };
        // A struct is never empty in Go's eyes, so `omitempty` does not leave it out.
        let is_struct = shape.starts_with(['@', 'Q', 'I', 'T', 'M', 'R']);
        match (go.pointer, go.always || (is_struct && !go.omit_zero)) {
            (true, _) if !go.always => " *",
            (true, _) => " *+",
            (false, true) => " +",
            (false, false) => "",
        }
    }

    fn print(&self) -> Result<String> {
        let mut lines = BTreeMap::new();
        for (name, schema) in &self.schemas {
            if shape_of_name(name).is_none() {
                self.print_type(name, schema, &mut lines)?;
            }
        }
        let mut text = String::from(
            "# Generated by `cargo xtask schema`; the reader in crates/apiserver/src/schema/mod.rs explains the format.\n",
        );
        for (name, body) in lines {
            writeln!(text, "{}{body}", short(&name))?;
        }
        Ok(text.trim_end().to_owned() + "\n")
    }

    fn print_type(
        &self,
        name: &str,
        schema: &Value,
        lines: &mut BTreeMap<String, String>,
    ) -> Result<()> {
        let mut body = String::new();
        if let Some([gvk]) = schema["x-kubernetes-group-version-kind"]
            .as_array()
            .map(Vec::as_slice)
        {
            let part = |key: &str| gvk[key].as_str().unwrap_or_default();
            write!(
                body,
                " {}/{}/{}",
                part("group"),
                part("version"),
                part("kind")
            )?;
        }
        if schema["x-kubernetes-map-type"] == "atomic" {
            body.push_str(" atomic");
        }
        let empty = serde_json::Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let members = self
            .messages
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (field, property) in properties {
            let number = members
                .iter()
                .find(|member| member.is(field))
                .map_or(0, |member| member.number);
            let required = schema["required"]
                .as_array()
                .is_some_and(|required| required.iter().any(|name| name == field));
            let shape = shape(name, property)?;
            let presence = self.presence(name, field, &shape);
            write!(
                body,
                "\n {field} {number} {shape}{presence}{}",
                flags(property, required)
            )?;
        }
        for member in members
            .iter()
            .filter(|member| !properties.keys().any(|field| member.is(field)))
        {
            let inline = member.inline_type(name);
            write!(body, "\n ~ {} @{}", member.number, relative(name, &inline))?;
            if !self.schemas.contains_key(&inline) {
                self.print_inline(name, &inline, properties, lines)?;
            }
        }
        lines.insert(name.to_owned(), body);
        Ok(())
    }

    /// A Go struct that others embed: a protobuf message of its own, but in JSON its fields are
    /// those of the type around it.
    fn print_inline(
        &self,
        outer: &str,
        inline: &str,
        properties: &serde_json::Map<String, Value>,
        lines: &mut BTreeMap<String, String>,
    ) -> Result<()> {
        let Some(members) = self.messages.get(inline) else {
            bail!("{outer} embeds {inline}, for which there is no protobuf message");
        };
        let mut body = String::from(" embedded");
        for member in members {
            let Some((field, property)) = properties.iter().find(|(field, _)| member.is(field))
            else {
                bail!(
                    "{outer} embeds {inline} but has no field for its member {}",
                    member.name
                );
            };
            write!(
                body,
                "\n {field} {} {}{}",
                member.number,
                shape(inline, property)?,
                flags(property, false)
            )?;
        }
        lines.insert(inline.to_owned(), body);
        Ok(())
    }
}

impl Member {
    fn parse(line: &str) -> Result<Option<Member>> {
        let Some((declaration, number)) = line
            .strip_suffix(';')
            .and_then(|line| line.split_once(" = "))
        else {
            return Ok(None);
        };
        if declaration.starts_with("option ") {
            return Ok(None);
        }
        let Some((ty, name)) = declaration.rsplit_once(' ') else {
            return Ok(None);
        };
        let ty = ty
            .trim_start_matches("optional ")
            .trim_start_matches("repeated ")
            .trim();
        let number = number
            .parse()
            .with_context(|| format!("odd field number in `{line}`"))?;
        Ok(Some(Member {
            name: name.to_owned(),
            number,
            ty: ty.to_owned(),
        }))
    }

    /// Whether this member is the JSON field `field`: protobuf spells `x-kubernetes-list-type`,
    /// `$ref` and a few initialisms its own way.
    fn is(&self, field: &str) -> bool {
        let plain = field.chars().filter(char::is_ascii_alphanumeric);
        plain
            .map(|letter| letter.to_ascii_lowercase())
            .eq(self.name.chars().map(|letter| letter.to_ascii_lowercase()))
    }

    fn inline_type(&self, outer: &str) -> String {
        match self.ty.strip_prefix('.') {
            Some(qualified) => openapi_package(qualified),
            None => format!("{}.{}", package_of(outer), self.ty),
        }
    }
}

/// The shape of a property as the table writes it: a letter, `[` for list of, `{` for map of, `@` for a type.
fn shape(outer: &str, property: &Value) -> Result<String> {
    if let Some(reference) = property["$ref"]
        .as_str()
        .or_else(|| property["allOf"][0]["$ref"].as_str())
    {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(match shape_of_name(name) {
            Some(shape) => shape.to_owned(),
            None => format!("@{}", relative(outer, name)),
        });
    }
    Ok(
        match (property["type"].as_str(), property["format"].as_str()) {
            (Some("string"), Some("byte")) => "y".to_owned(),
            (Some("string"), _) => "s".to_owned(),
            (Some("boolean"), _) => "b".to_owned(),
            (Some("integer"), Some("int32")) => "i".to_owned(),
            (Some("integer"), _) => "l".to_owned(),
            (Some("number"), _) => "d".to_owned(),
            (Some("array"), _) => format!("[{}", shape(outer, &property["items"])?),
            (Some("object"), _) if property["additionalProperties"].is_object() => {
                format!("{{{}", shape(outer, &property["additionalProperties"])?)
            }
            (Some("object"), _) | (None, _) => "a".to_owned(),
            (Some(other), _) => bail!("{outer} has a property of the unknown type {other}"),
        },
    )
}

/// Types with a JSON form of their own that no table of fields can describe.
fn shape_of_name(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("io.k8s.apimachinery.pkg.") {
        Some("api.resource.Quantity") => "Q",
        Some("util.intstr.IntOrString") => "I",
        Some("apis.meta.v1.Time") => "T",
        Some("apis.meta.v1.MicroTime") => "M",
        Some("runtime.RawExtension") => "R",
        Some("apis.meta.v1.FieldsV1") => "F",
        Some(_) => return None,
        None => match name
            .strip_prefix("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON")?
        {
            "" | "SchemaPropsOrArray" | "SchemaPropsOrBool" | "SchemaPropsOrStringArray" => "a",
            _ => return None,
        },
    })
}

fn flags(property: &Value, required: bool) -> String {
    let mut flags = String::new();
    if required {
        flags.push_str(" !");
    }
    for (key, flag) in [
        ("x-kubernetes-patch-strategy", "p:"),
        ("x-kubernetes-patch-merge-key", "k:"),
        ("x-kubernetes-list-type", "l:"),
        ("x-kubernetes-map-type", "m:"),
    ] {
        if let Some(value) = property[key]
            .as_str()
            .filter(|value| (key, *value) != ("x-kubernetes-list-type", "atomic"))
        {
            flags.push_str(&format!(" {flag}{value}"));
        }
    }
    let words = |key: &str, separator: &str| {
        let words = property[key]
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>();
        Some(words.join(separator))
    };
    if let Some(keys) = words("x-kubernetes-list-map-keys", ",") {
        flags.push_str(&format!(" K:{keys}"));
    }
    if let Some(values) = words("enum", "|") {
        flags.push_str(&format!(" e:{values}"));
    }
    if let Some(default) = property.get("default") {
        flags.push_str(&format!(" ={default}"));
    }
    flags
}

/// Alpha and beta versions are not served, so they have no place in the tables.
fn is_stable(name: &str) -> bool {
    let package = package_of(name);
    let version = package.rsplit('.').next().unwrap_or_default();
    let is_preview = version.contains("alpha") || version.contains("beta");
    !is_preview
        || PREVIEWS
            .iter()
            .any(|wanted| short(name).starts_with(wanted))
}

/// How the names of types begin that are served before they are stable: those of kinds that a controller looks after
/// behind a gate.
const PREVIEWS: [&str; 7] = [
    "api.certificates.v1alpha1.ClusterTrustBundle",
    "api.certificates.v1beta1.ClusterTrustBundle",
    "api.certificates.v1beta1.PodCertificateRequest",
    "api.resource.v1alpha3.PoolStatus",
    "api.resource.v1alpha3.ResourcePoolStatusRequest",
    "api.resource.v1beta2.DeviceTaint",
    "api.scheduling.v1alpha2.",
];

fn openapi_package(name: &str) -> String {
    name.replacen("k8s.io.", "io.k8s.", 1).replace('_', "-")
}

fn package_of(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(package, _)| package)
}

/// All names begin with `io.k8s.`: the table leaves that out.
fn short(name: &str) -> &str {
    name.strip_prefix("io.k8s.").unwrap_or(name)
}

/// A type of the same package is written as `.Name`.
fn relative(outer: &str, name: &str) -> String {
    match name.strip_prefix(package_of(outer)) {
        Some(rest) if rest.starts_with('.') && !rest[1..].contains('.') => rest.to_owned(),
        _ => short(name).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAPI: &str = r##"{"components": {"schemas": {
        "io.k8s.api.x.v1.Thing": {"type": "object", "required": ["ports"], "properties": {
            "kind": {"type": "string"},
            "emptyDir": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.x.v1.Dir"}], "description": "prose"},
            "limits": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "ports": {"type": "array", "items": {"type": "integer", "format": "int32"}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["p", "q"], "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "p"}},
            "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Thing"}]},
        "io.k8s.api.x.v1.Dir": {"type": "object", "x-kubernetes-map-type": "atomic"},
        "io.k8s.api.x.v1beta1.Thing": {"type": "object"},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"}}}}"##;

    const PROTO: &str = "package k8s.io.api.x.v1;\nmessage Thing {\n  // prose = 9;\n  optional Source source = 1;\n  \
        map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> limits = 2;\n  optional string mode = 3;\n  repeated int32 ports = 4;\n}\n\
        message Source {\n  optional Dir emptyDir = 7;\n}\n";

    const GO: &str = "type Thing struct {\n\tSource `json:\",inline\"`\n\tLimits L `json:\"limits,omitempty\"`\n\tMode *string `json:\"mode,omitempty\"`\n\
        \tPorts []int32 `json:\"ports\"`\n}\ntype Source struct {\n\tEmptyDir *Dir `json:\"emptyDir,omitempty\"`\n}\n";

    #[test]
    fn documents_become_a_table_without_prose() {
        let folder = std::env::temp_dir().join(format!("steersman-schema-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("api.json", OPENAPI),
            ("generated.proto", PROTO),
            ("types.go", GO),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let table =
            Sources::below(std::slice::from_ref(&folder)).and_then(|sources| sources.print());
        std::fs::remove_dir_all(&folder).unwrap();
        let table = table.unwrap();
        let lines: Vec<_> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "api.x.v1.Dir atomic",
                "api.x.v1.Source embedded",
                " emptyDir 7 @.Dir",
                "api.x.v1.Thing x/v1/Thing",
                " emptyDir 0 @.Dir *",
                " kind 0 s",
                " limits 2 {Q",
                " mode 3 s * e:a|b =\"a\"",
                " ports 4 [i + ! p:merge k:p l:map K:p,q",
                " ~ 1 @.Source",
            ]
        );
    }

    #[test]
    fn a_folder_without_documents_is_refused() {
        let error = Sources::below(&[PathBuf::from("/nonexistent-folder/x.json")])
            .err()
            .unwrap();
        assert!(error.to_string().contains("cannot read"), "{error}");
        assert!(
            Sources::below(&[])
                .err()
                .unwrap()
                .to_string()
                .contains("no OpenAPI document")
        );
    }
}
