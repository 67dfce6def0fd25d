//! Which admission plugins run, and what they are told.

use std::path::Path;

use apiserver::admission::{
    PluginConfigurations, PluginSettings, Plugins, Source, plugin_document, plugin_sources,
};
use manager::options::path;
use manager::{Error, files};

use super::options::Reader;
use crate::outbound::backend;

const FILE: &str = "admission-control-config-file";
const ENABLE: &str = "enable-admission-plugins";

impl Reader<'_> {
    pub(super) fn plugins(&mut self) -> Plugins {
        let flags = self.flags;
        let [only, enabled, disabled] =
            ["admission-control", ENABLE, "disable-admission-plugins"].map(|flag| flags.list(flag));
        let has_changes = !enabled.is_empty() || !disabled.is_empty();
        if !only.is_empty() && has_changes {
            self.add(
                "admission-control",
                "cannot be given with --enable-admission-plugins or --disable-admission-plugins",
            );
        }
        let chosen = match only.is_empty() {
            true => Plugins::chosen(enabled, disabled),
            false => Plugins::only(only),
        };
        chosen.unwrap_or_else(|errors| {
            for error in errors {
                self.add(ENABLE, error.to_string());
            }
            Plugins::default()
        })
    }

    /// What the plugins that are on are told by files.
    pub(super) fn plugin_settings(&mut self, plugins: Plugins) -> PluginSettings {
        let file = path(self.flags, FILE);
        let told = match &file {
            Some(file) => {
                let told = plugin_configurations(plugins, file);
                match self.keep(told) {
                    Some(told) => told,
                    None => return PluginSettings::default(),
                }
            }
            None => PluginConfigurations::default(),
        };
        PluginSettings::new(plugins, &told, backend).unwrap_or_else(|errors| {
            for error in errors {
                match &file {
                    Some(_) => self.add(FILE, error),
                    None => self.add(ENABLE, format!("{error}; say it by --{FILE}")),
                }
            }
            PluginSettings::default()
        })
    }
}

fn plugin_configurations(plugins: Plugins, file: &Path) -> Result<PluginConfigurations, Error> {
    let bad = |path: &Path, problem| Error::BadFile {
        flag: FILE,
        path: path.to_owned(),
        problem,
    };
    let text = files::read_text(FILE, file)?;
    let sources = plugin_sources(plugins, file, &text).map_err(|problem| bad(file, problem))?;
    let read = |source| match source {
        Source::Inline(value) => Ok(value),
        Source::File(path) => plugin_document(&files::read_text(FILE, &path)?)
            .map_err(|why| bad(&path, format!("cannot be read: {why}"))),
    };
    let told = sources
        .into_iter()
        .map(|(name, source)| Ok((name, read(source)?)));
    told.collect()
}
