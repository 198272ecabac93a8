//! The subjects of each cell: every combination of the axes, checked.

use super::browser;
use super::check::check;
use super::error::unknown;
use super::file::SubjectBlock;
use super::plan::{Blank, Cell, Subject};
use super::process;
use super::settings::Block;
use super::uses::expect_used;
use super::{Drive, Peer, Process, Program, PublishTo, Role, ScenarioError, Settings};
use toml::Spanned;

pub(super) struct Declared {
    name: String,
    program: Program,
    on_demand: bool,
    with: Block,
    arguments: Vec<String>,
    processes: Vec<Process>,
}

impl Declared {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Includes a subject on demand if it is among these names.
    pub(super) fn demand(&mut self, names: &[String]) {
        self.on_demand &= !names.contains(&self.name);
    }
}

/// Returns the subjects of a file with this text; if it has none, Thalweg, and the limit if it can take part.
pub(super) fn declared(
    text: &str,
    blocks: Option<&[Spanned<SubjectBlock>]>,
    drive: Drive,
    peers: &[Peer],
    in_browser: bool,
) -> Result<Vec<Declared>, ScenarioError> {
    let plain = |name: &str, program| Declared {
        name: name.to_owned(),
        program,
        on_demand: false,
        with: Block::default(),
        arguments: Vec::new(),
        processes: Vec::new(),
    };
    let Some(blocks) = blocks else {
        let has_limit = !matches!(drive, Drive::Publish | Drive::Stored);
        let limit = has_limit.then(|| plain("limit", Program::Limit));
        return Ok(limit.into_iter().chain([plain("thalweg", Program::Thalweg)]).collect());
    };
    let declare = |spanned: &Spanned<SubjectBlock>| {
        let block = spanned.get_ref();
        let program = expect_used(&block.with, drive, in_browser)
            .and_then(|()| process::check(&block.processes, &block.arguments))
            .and_then(|()| program(block, peers))
            .map_err(|message| ScenarioError::at(text, &spanned.span(), message))?;
        Ok(Declared {
            name: block.name.clone().unwrap_or_else(|| block.program.clone()),
            on_demand: block.on_demand,
            with: block.with.clone(),
            // A peer has them in its own command.
            arguments: match &program {
                Program::Thalweg => block.arguments.clone(),
                _ => Vec::new(),
            },
            program,
            processes: block.processes.clone(),
        })
    };
    blocks.iter().map(declare).collect()
}

fn program(block: &SubjectBlock, peers: &[Peer]) -> Result<Program, String> {
    let ours = match block.program.as_str() {
        "thalweg" => Some(Program::Thalweg),
        "limit" => Some(Program::Limit),
        _ => None,
    };
    if let Some(ours) = ours {
        return match block.arguments.as_slice() {
            [] => Ok(ours),
            // The other nodes that a node knows are not a setting, and neither is what else it serves.
            _ if ours == Program::Thalweg && !block.processes.is_empty() => Ok(ours),
            arguments if ours == Program::Thalweg && serves_more(arguments) => Ok(ours),
            _ => {
                Err("`arguments` are for peers; Thalweg's are settings, except --source, --query, \
                      --topic, --data and --set"
                    .to_owned())
            }
        };
    }
    let Some(peer) = peers.iter().find(|peer| peer.name == block.program) else {
        let peers = peers.iter().map(|peer| peer.name.as_str());
        let known: Vec<&str> = ["thalweg", "limit"].into_iter().chain(peers).collect();
        return Err(unknown("program", &block.program, &known));
    };
    let mut peer = peer.clone();
    peer.arguments.clone_from(&block.arguments);
    if !block.transports.is_empty() {
        peer.transports.clone_from(&block.transports);
    }
    Ok(Program::Peer(Box::new(peer)))
}

/// Returns whether arguments only name what a server serves beside the load.
fn serves_more(arguments: &[String]) -> bool {
    let is_more = |pair: &[String]| match pair {
        [flag, _] => ["--source", "--query", "--topic", "--data", "--set"].contains(&flag.as_str()),
        _ => false,
    };
    arguments.chunks(2).all(is_more)
}

/// Subjects for the cells of a file.
pub(super) struct CellMatrix<'a> {
    pub(super) subjects: &'a [Declared],
    pub(super) drive: Drive,
    /// Only these, by name, unless it is empty.
    pub(super) only: &'a [String],
    /// Whether a browser is the load.
    pub(super) in_browser: bool,
}

impl CellMatrix<'_> {
    /// Returns the cells that a block stands for; `forced` is from the command line.
    pub(super) fn expand(&self, block: &Block, forced: &Block) -> Result<Vec<Cell>, String> {
        let names: Vec<&str> = self.subjects.iter().map(|subject| subject.name.as_str()).collect();
        let known = |name: &str| match names.iter().position(|known| *known == name) {
            Some(index) => Ok(index),
            None => Err(unknown("subject", name, &names)),
        };
        let listed: Vec<usize> = match &block.subjects {
            Some(listed) => listed.iter().map(|name| known(name)).collect::<Result<_, _>>()?,
            None => (0..names.len()).filter(|&index| !self.subjects[index].on_demand).collect(),
        };
        let chosen: Vec<&Declared> = listed
            .into_iter()
            .map(|index| &self.subjects[index])
            .filter(|subject| self.only.is_empty() || self.only.contains(&subject.name))
            .collect();
        let baseline = match &block.baseline {
            Some(name) => names[known(name)?],
            None => chosen.first().map_or("", |subject| &subject.name),
        };
        forced
            .over(block)
            .combinations(&Settings::default())
            .into_iter()
            .map(|settings| {
                let subjects: Result<Vec<_>, _> =
                    chosen.iter().map(|subject| self.place(subject, &settings, forced)).collect();
                let (mut subjects, mut blanks) = (subjects?, Vec::new());
                let label = self.label(&settings, &subjects);
                subjects.retain(|subject| {
                    let why = self.blank(&subject.settings, &subject.program);
                    let can = why.is_none();
                    blanks.extend(why.map(|why| Blank { subject: subject.name.clone(), why }));
                    can
                });
                // If subjects are named, the cells that they support are measured.
                if let ([], [blank, ..], []) = (&*subjects, &*blanks, self.only) {
                    return Err(blank.to_string());
                }
                let baseline = subjects.iter().position(|subject| subject.name == baseline);
                Ok(Cell { label, settings, baseline: baseline.unwrap_or(0), subjects, blanks })
            })
            .collect()
    }

    /// Returns why a subject cannot be measured in a cell in which others can.
    fn blank(&self, settings: &Settings, program: &Program) -> Option<String> {
        let peer = match program {
            Program::Peer(peer) => peer.blank(settings, self.drive),
            _ => None,
        };
        peer.or_else(|| browser::blank(settings, program).filter(|_| self.in_browser))
    }

    /// Returns the label of a cell: without a transport if its subjects have one each, or are pages that choose it themselves.
    fn label(&self, settings: &Settings, subjects: &[Subject]) -> String {
        let label = settings.label(self.drive);
        let Settings { transport, connections, .. } = settings;
        let differ = subjects.iter().any(|subject| {
            subject.settings.transport != *transport || subject.settings.consumer.is_page()
        });
        match self.in_browser && differ {
            true => label.replacen(
                &format!("{transport} {connections}"),
                &match connections {
                    1 => "1 connection".to_owned(),
                    several => format!("{several} connections"),
                },
                1,
            ),
            false => label,
        }
    }

    /// Places a subject in a cell. Its own settings replace the cell's, and the command line's replace both.
    fn place(
        &self,
        subject: &Declared,
        settings: &Settings,
        forced: &Block,
    ) -> Result<Subject, String> {
        let own = subject.with.except(forced).combinations(settings);
        let [settings] = own.as_slice() else {
            let name = &subject.name;
            return Err(format!("subject `{name}` needs one value per setting, not a list"));
        };
        if !matches!(&subject.program, Program::Peer(peer) if peer.blank(settings, self.drive).is_some())
        {
            check(settings, self.drive, &subject.program)?;
        }
        if self.in_browser {
            browser::check(settings, self.drive, &subject.program)?;
        }
        let has_nats = subject.processes.iter().any(|process| process.role == Role::Nats);
        let wants_nats = self.drive == Drive::Stored || settings.publish_to == PublishTo::Nats;
        if wants_nats && !has_nats {
            let name = &subject.name;
            return Err(format!(
                "the lab publishes to NATS, and subject `{name}` has no process of the role `nats`"
            ));
        }
        Ok(Subject {
            name: subject.name.clone(),
            program: subject.program.clone(),
            settings: settings.clone(),
            arguments: subject.arguments.clone(),
            processes: subject.processes.clone(),
        })
    }
}
