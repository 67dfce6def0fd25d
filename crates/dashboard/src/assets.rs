//! The page: plain files, embedded as they are. Nothing is built, and nothing comes from another host.
//!
//! Modules name each other by bare names (`preact`, `app/model`), and an import map says where these are: on the server
//! beside the page, in a single file in the file itself. So the same modules serve both.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

/// One file of the page.
pub(crate) struct Asset {
    /// Its path below `assets/`.
    pub(crate) path: &'static str,
    /// What other modules call it; empty for what is no module.
    module: &'static str,
    pub(crate) body: &'static str,
}

macro_rules! asset {
    ($path:literal, $module:literal) => {
        Asset {
            path: $path,
            module: $module,
            body: include_str!(concat!("../assets/", $path)),
        }
    };
}

pub(crate) const ASSETS: [Asset; 18] = [
    asset!("style.css", ""),
    asset!("sign-in.js", ""),
    asset!("vendor/preact.js", "preact"),
    asset!("vendor/preact-hooks.js", "preact/hooks"),
    asset!("vendor/htm.js", "htm"),
    asset!("app/actions.js", "app/actions"),
    asset!("app/connection.js", "app/connection"),
    asset!("app/decisions.js", "app/decisions"),
    asset!("app/html.js", "app/html"),
    asset!("app/main.js", "app/main"),
    asset!("app/model.js", "app/model"),
    asset!("app/nodes.js", "app/nodes"),
    asset!("app/object.js", "app/object"),
    asset!("app/rollouts.js", "app/rollouts"),
    asset!("app/search.js", "app/search"),
    asset!("app/time.js", "app/time"),
    asset!("app/unsettled.js", "app/unsettled"),
    asset!("app/words.js", "app/words"),
];

/// The page and the policy that it is served with.
pub(crate) struct Page {
    pub(crate) html: String,
    pub(crate) policy: String,
}

const SKELETON: &str = include_str!("../assets/page.html");
const SIGN_IN: &str = include_str!("../assets/sign-in.html");

/// The page as a server serves it.
pub(crate) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let map = import_map(|asset| format!("./assets/{}", asset.path));
    let mut head = String::from("<link rel=\"stylesheet\" href=\"assets/style.css\">\n");
    let _ = writeln!(head, "<script type=\"importmap\">{map}</script>");
    for asset in modules() {
        let _ = writeln!(
            head,
            "<link rel=\"modulepreload\" href=\"assets/{}\">",
            asset.path
        );
    }
    head.push_str("<script type=\"module\" src=\"assets/app/main.js\"></script>");
    let digest = ring::digest::digest(&ring::digest::SHA256, map.as_bytes());
    let hash = STANDARD.encode(digest);
    Page {
        html: SKELETON.replace("<!-- head -->", &head),
        policy: format!(
            "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
    }
});

/// The form for those who have no session, with a sentence that says why.
pub(crate) fn sign_in(why: &str) -> String {
    SIGN_IN.replace("<!-- why -->", &escaped(why))
}

/// The same for where a script has to put the token into a header.
pub(crate) fn sign_in_by_script(why: &str) -> String {
    let script = "<script type=\"module\" src=\"assets/sign-in.js\"></script>";
    sign_in(why).replace("<!-- head -->", script)
}

/// Something that has happened, from beginning to end.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    pub title: String,
    /// The moment that is shown first, in milliseconds.
    pub begin: i64,
    /// The moment that all others are counted from.
    pub count_from: i64,
    /// How everything was before the first frame.
    pub base: Value,
    pub frames: Vec<Value>,
    pub notes: Notes,
}

/// What is said of a recording.
#[derive(Serialize)]
pub struct Notes {
    pub verdict: String,
    /// It is that of a check that does not hold.
    pub failed: bool,
    pub warnings: Vec<String>,
}

/// The page with a recording in it, as one file that needs no server.
pub fn one_file(recording: &Recording) -> String {
    let map = import_map(|asset| {
        format!(
            "data:text/javascript;base64,{}",
            STANDARD.encode(asset.body)
        )
    });
    let policy = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:";
    // A closing tag within the data would end it.
    let data = serde_json::to_string(recording).unwrap_or_default();
    let data = data.replace("</", "<\\/");
    let mut head = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
    for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".css")) {
        let _ = writeln!(head, "<style>{}</style>", asset.body);
    }
    let _ = writeln!(head, "<script type=\"importmap\">{map}</script>");
    let _ = writeln!(
        head,
        "<script type=\"application/json\" id=\"recording\">{data}</script>"
    );
    head.push_str("<script type=\"module\">import \"app/main\";</script>");
    SKELETON.replace("<!-- head -->", &head)
}

fn modules() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().filter(|asset| !asset.module.is_empty())
}

fn import_map(place: impl Fn(&Asset) -> String) -> String {
    let imports = modules().map(|asset| (asset.module.to_owned(), Value::from(place(asset))));
    serde_json::json!({"imports": imports.collect::<serde_json::Map<_, _>>()}).to_string()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compressed it is a third of that; not even compressing is needed.
    const PAGE_WEIGHT: usize = 150 * 1024;

    #[test]
    fn the_page_is_light() {
        let weight: usize =
            ASSETS.iter().map(|asset| asset.body.len()).sum::<usize>() + PAGE.html.len();
        assert!(weight <= PAGE_WEIGHT, "{weight} bytes");
    }

    #[test]
    fn every_import_is_in_the_map_and_nothing_comes_from_elsewhere() {
        for asset in &ASSETS {
            let imports = asset
                .body
                .split("from\"")
                .skip(1)
                .chain(asset.body.split("from \"").skip(1));
            for import in imports {
                let name = import.split('"').next().unwrap();
                assert!(
                    modules().any(|module| module.module == name),
                    "{}: {name}",
                    asset.path
                );
            }
            if !asset.path.starts_with("vendor/") {
                let mut hosts = asset
                    .body
                    .split("://")
                    .skip(1)
                    .map(|rest| rest.split(['/', '"', '`']).next().unwrap());
                assert_eq!(
                    hosts.find(|host| *host != "www.w3.org"),
                    None,
                    "{}",
                    asset.path
                );
            }
        }
    }

    /// What is drawn in a way of its own has rows, or it would never be drawn.
    #[test]
    fn kinds_that_the_page_names_are_drawn() {
        let mut named = Vec::new();
        for asset in modules().filter(|asset| asset.path.starts_with("app/")) {
            for before in ["kind === \"", "kind !== \"", ".all(\""] {
                let found = asset.body.split(before).skip(1);
                named.extend(found.filter_map(|rest| rest.split('"').next()));
            }
        }
        assert!(named.contains(&"PodDisruptionBudget"), "{named:?}");
        for kind in named {
            assert!(crate::kinds::named(kind).is_some(), "{kind} has no rows");
        }
    }

    #[test]
    fn vendored_files_are_as_they_were_published() {
        let sums = include_str!("../assets/vendor/SHA256SUMS");
        for asset in ASSETS
            .iter()
            .filter(|asset| asset.path.starts_with("vendor/"))
        {
            let digest = ring::digest::digest(&ring::digest::SHA256, asset.body.as_bytes());
            let digest: String = digest
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let name = asset.path.trim_start_matches("vendor/");
            assert!(
                sums.contains(&format!("{digest}  {name}\n")),
                "{name} is {digest}"
            );
        }
    }

    #[test]
    fn a_recording_cannot_end_its_element() {
        let page = one_file(&Recording {
            title: "</script><script>alert(1)".to_owned(),
            begin: 0,
            count_from: 0,
            base: Value::Null,
            frames: Vec::new(),
            notes: Notes {
                verdict: String::new(),
                failed: false,
                warnings: Vec::new(),
            },
        });
        assert!(!page.contains("</script><script>alert"));
    }
}
