//! What one run of a container printed.

use std::time::Duration;

use api::{Clock, MicroTime, Resource, Time};
use bytes::Bytes;
use client::Client;
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;

use super::{LogRequest, Stream, environment};
use crate::behaviour::Behaviour;
use crate::pod::{ContainerState, ContainerStatus, Pod, Terminated};
use crate::script::{Files, Printed, Script, Surroundings, normal};

/// How often somebody who follows a log is shown what is new.
const TICK: Duration = Duration::from_millis(250);

/// Statuses know whole seconds: what happened in the last one has happened.
const REST_OF_SECOND: Duration = Duration::from_millis(999);

/// From the start of a container to its end, if it has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) started_at: Time,
    pub(super) end: Option<(Time, i32)>,
}

impl Run {
    /// None of a run that its kubelet has lost sight of.
    pub(super) fn ended(end: &Terminated) -> Option<Run> {
        Some(Run {
            started_at: end.started_at?,
            end: Some((end.finished_at?, end.exit_code)),
        })
    }

    /// The run whose log is asked for. UPSTREAM: `validateContainerLogStatus`, in its words.
    pub(super) fn find(pod: &Pod, container: &str, previous: bool) -> Result<Run, String> {
        let name = &pod.metadata.name;
        let Some(status) = status_of(pod, container) else {
            return Err(format!(
                "container {container:?} in pod {name:?} is not available"
            ));
        };
        let last = status.last.as_ref();
        if previous {
            return last.and_then(Run::ended).ok_or_else(|| {
                format!("previous terminated container {container:?} in pod {name:?} not found")
            });
        }
        let lost = || format!("container {container:?} in pod {name:?} is terminated");
        match (&status.state, last) {
            (ContainerState::Running { started_at }, _) => Ok(Run {
                started_at: *started_at,
                end: None,
            }),
            (ContainerState::Terminated(end), last) => Run::ended(end)
                .or_else(|| last.and_then(Run::ended))
                .ok_or_else(lost),
            (ContainerState::Waiting { .. }, Some(last)) => Run::ended(last).ok_or_else(lost),
            (ContainerState::Waiting { reason, .. }, None) => {
                let why = match reason.as_str() {
                    "ErrImagePull" => "image can't be pulled",
                    "ImagePullBackOff" => "trying and failing to pull image",
                    reason => reason,
                };
                Err(format!(
                    "container {container:?} in pod {name:?} is waiting to start: {why}"
                ))
            }
        }
    }
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let mut statuses = pod.status.all_containers();
    statuses.find(|status| status.name == *container)
}

pub(super) fn is_running(pod: &Pod, container: &str) -> bool {
    status_of(pod, container)
        .is_some_and(|status| matches!(status.state, ContainerState::Running { .. }))
}

/// Where the lines of a run come from.
pub(super) struct Source {
    name: String,
    image: String,
    script: Option<Script>,
    around: Surroundings,
    extra: Vec<(Duration, String)>,
    run: Run,
}

impl Source {
    pub(super) fn new(
        spec: &Value,
        around: Surroundings,
        behaviour: &Behaviour,
        run: Run,
    ) -> Source {
        let name = spec["name"].as_str().unwrap_or_default();
        let script = Script::parse(&environment::command(spec, &around.environment)).ok();
        Source {
            name: name.to_owned(),
            image: spec["image"].as_str().unwrap_or_default().to_owned(),
            script,
            around,
            extra: behaviour.log_of(name),
            run,
        }
    }

    /// What its command has written to a file by the end of the run.
    pub(super) fn written(&self, path: &str) -> String {
        let writes = self.script.as_ref().is_some_and(Script::writes_files);
        let written = writes.then(|| self.files(self.run.started_at.micro()));
        match written.and_then(|mut files| files.remove(&normal(path))) {
            Some(Ok(text)) => text,
            _ => String::new(),
        }
    }

    /// What files hold at the end of the run, or by now, with what its command has written.
    pub(super) fn files(&self, now: MicroTime) -> Files {
        let start = self.run.started_at.micro();
        let to = self.until(now);
        match &self.script {
            Some(script) if script.writes_files() => {
                script.perform(&self.around, start, to, to).files
            }
            _ => self.around.files.clone(),
        }
    }

    /// What was printed last.
    pub(super) fn tail(&self, lines: usize) -> String {
        let start = self.run.started_at.micro();
        let from = start.minus(Duration::from_micros(1));
        let to = self.until(start);
        let printed = self.lines(from, to);
        let first = printed.len().saturating_sub(lines);
        printed[first..]
            .iter()
            .map(|one| one.text.as_str())
            .collect()
    }

    /// The end of the run; `now` while it goes on.
    fn until(&self, now: MicroTime) -> MicroTime {
        let end = self.run.end.map(|(at, _)| at.micro().plus(REST_OF_SECOND));
        end.unwrap_or(now)
    }

    /// What was printed after `from` and up to `to`.
    fn lines(&self, from: MicroTime, to: MicroTime) -> Vec<Printed> {
        let start = self.run.started_at.micro();
        let to = self.until(to).min(to);
        let mut printed = match &self.script {
            Some(script) => script.perform(&self.around, start, from, to).printed,
            None => self.lifecycle(),
        };
        printed.extend(self.extra.iter().map(|(after, text)| Printed {
            at: start.plus(*after),
            to_stderr: false,
            text: format!("{}\n", text.trim_end_matches('\n')),
        }));
        printed.retain(|one| one.at > from && one.at <= to);
        printed.sort_by_key(|one| one.at);
        printed.into_iter().flat_map(split).collect()
    }

    /// What there is to say of a container whose program is not known.
    fn lifecycle(&self) -> Vec<Printed> {
        let Source { name, image, .. } = self;
        let line = |at: Time, text: String| Printed {
            at: at.micro(),
            to_stderr: false,
            text,
        };
        let mut lines = vec![line(
            self.run.started_at,
            format!(
                "simulated container {name} of image {image}: started; no process runs here, so it prints nothing of its own\n"
            ),
        )];
        if let Some((at, code)) = self.run.end {
            let text = format!("simulated container {name}: ended with exit code {code}\n");
            lines.push(line(at, text));
        }
        lines
    }
}

/// One for each line.
fn split(printed: Printed) -> Vec<Printed> {
    let lines = printed.text.split_inclusive('\n');
    lines
        .map(|text| Printed {
            text: text.to_owned(),
            ..printed.clone()
        })
        .collect()
}

/// Somebody who reads a log.
struct Reader {
    client: Client,
    clock: Clock,
    source: Source,
    request: LogRequest,
    /// Up to here it has been read; none before the first piece.
    read: Option<MicroTime>,
    bytes_left: usize,
    is_over: bool,
}

pub(super) fn stream(
    client: Client,
    clock: Clock,
    source: Source,
    request: LogRequest,
) -> BoxStream<'static, Bytes> {
    let reader = Reader {
        bytes_left: request.limit_bytes.unwrap_or(usize::MAX),
        client,
        clock,
        source,
        request,
        read: None,
        is_over: false,
    };
    stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((piece, reader))
    })
    .boxed()
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over && self.bytes_left > 0 {
            if self.read.is_some() {
                tokio::time::sleep(TICK).await;
                self.look_again().await;
            }
            let piece = self.piece();
            self.is_over |= !self.request.follow || self.source.run.end.is_some();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }

    fn piece(&mut self) -> Bytes {
        let now = self.clock.now();
        let is_first = self.read.is_none();
        let request = &self.request;
        let begin = self.source.run.started_at.micro();
        let since = request.since.map_or(begin, |since| since.max(begin));
        let from = self
            .read
            .unwrap_or_else(|| since.minus(Duration::from_micros(1)));
        self.read = Some(now);
        let mut lines = self.source.lines(from, now);
        lines.retain(|line| match request.stream {
            None => true,
            Some(stream) => line.to_stderr == (stream == Stream::Stderr),
        });
        if let Some(most) = request.tail_lines.filter(|_| is_first) {
            lines.drain(..lines.len().saturating_sub(most));
        }
        let mut text = String::new();
        for line in lines {
            if request.timestamps {
                text.push_str(&timestamp(line.at));
            }
            text.push_str(&line.text);
        }
        let mut bytes = text.into_bytes();
        bytes.truncate(self.bytes_left);
        self.bytes_left -= bytes.len();
        Bytes::from(bytes)
    }

    /// Has the run come to its end meanwhile?
    async fn look_again(&mut self) {
        let meta = &self.request.pod["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let answer = self.client.get(&Pod::TYPE, namespace, name).await;
        let pod = match answer.as_deref().map(Pod::decode) {
            Ok(Ok(pod)) if pod.metadata.uid.to_string() == text("uid") => pod,
            Err(error) if !error.is_not_found() => return,
            _ => return self.is_over = true,
        };
        let now = Run::find(&pod, &self.request.container, false);
        let started_at = self.source.run.started_at;
        let before = Run::find(&pod, &self.request.container, true);
        match [now, before]
            .into_iter()
            .flatten()
            .find(|run| run.started_at == started_at)
        {
            Some(run) => self.source.run = run,
            None => self.is_over = true,
        }
    }
}

/// As the kubelet prints it: nine digits after the point.
fn timestamp(at: MicroTime) -> String {
    let micros = at.since(at.time()).as_micros();
    let seconds = at.time().to_string();
    format!("{}.{micros:06}000Z ", seconds.trim_end_matches('Z'))
}
