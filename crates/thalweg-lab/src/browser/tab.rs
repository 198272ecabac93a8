//! A tab of the subject's origin that runs the page's half of the load.

use super::cdp::{Asked, Cdp};
use crate::load_generator::monotonic_us;
use crate::scenario::Consumer;
use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Scripts of the page's half of the load; later files use definitions of earlier ones.
const SCRIPTS: [&str; 8] = [
    include_str!("../../../../web/lab/page/ledger.js"),
    include_str!("../../../../web/lab/page/transports.js"),
    include_str!("../../../../web/lab/page/consumers.js"),
    include_str!("../../../../web/lab/page/timeline.js"),
    include_str!("../../../../web/lab/page/frames.js"),
    include_str!("../../../../web/lab/page/live.js"),
    include_str!("../../../../web/lab/page/round_trips.js"),
    include_str!("../../../../web/lab/page/load.js"),
];
/// A small page that every subject has. A script on this page may send requests to the subject.
const PAGE: &str = "/healthz";
const LOADED: &str = "document.readyState == 'complete'";
const LOADED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Number of clock readings; the fastest one determines the offset of the clocks.
const CLOCK_LOOKS: usize = 20;

/// Returns all scripts as one expression, followed by `behind`.
fn script(behind: &str) -> anyhow::Result<String> {
    let all = SCRIPTS.concat();
    let text = serde_json::to_string(&all)?;
    Ok(format!("(() => {{ const SOURCE = {text};\n{all}\n{behind} }})()"))
}

/// A tab that is ready for a load.
#[derive(Debug)]
pub(super) struct Tab {
    session: String,
    /// Lead of the machine's monotonic clock over the page's, µs.
    pub(super) ahead_us: f64,
}

impl Tab {
    /// Opens a tab at `origin`. With `devtools`, the tab is observed as if DevTools were open.
    pub(super) fn open(cdp: &mut Cdp, origin: &str, devtools: bool) -> anyhow::Result<Tab> {
        let url = format!("{origin}{PAGE}");
        let mut tab = Tab::attached(cdp, &url)?;
        tab.wait_until(cdp, &format!("{LOADED} && location.href == '{url}'"), &url)?;
        if devtools {
            for method in ["Runtime.enable", "Network.enable", "Performance.enable"] {
                cdp.call(Some(&tab.session), method, &json!({}))?;
            }
        }
        tab.evaluate::<Value>(cdp, &script("")?)?;
        tab.compare_clocks(cdp)?;
        Ok(tab)
    }

    /// Opens the live page of a topic, with its table or chart in view.
    pub(super) fn open_live(
        cdp: &mut Cdp,
        origin: &str,
        topic: &str,
        consumer: Consumer,
    ) -> anyhow::Result<Tab> {
        let (view, shown) = match consumer {
            Consumer::LiveChart => ("chart", "figure.chart"),
            _ => ("table", "tbody th"),
        };
        let mut tab = Tab::attached(cdp, "about:blank")?;
        let session = Some(tab.session.clone());
        let wanted = json!({ "source": script("lab.watch();")? });
        cdp.call(session.as_deref(), "Page.enable", &json!({}))?;
        cdp.call(session.as_deref(), "Page.addScriptToEvaluateOnNewDocument", &wanted)?;
        let url = format!("{origin}/?topic={topic}&view={view}");
        cdp.call(session.as_deref(), "Page.navigate", &json!({ "url": url }))?;
        let is_live =
            format!("globalThis.lab?.standing() > 0 && document.querySelector('{shown}') != null");
        tab.wait_until(cdp, &is_live, &url)
            .context("no live page: build the subject with its pages (make pages)")?;
        tab.compare_clocks(cdp)?;
        Ok(tab)
    }

    fn attached(cdp: &mut Cdp, url: &str) -> anyhow::Result<Tab> {
        let wanted = json!({ "url": url, "newWindow": true });
        let target = cdp.call(None, "Target.createTarget", &wanted)?;
        let wanted = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = cdp.call(None, "Target.attachToTarget", &wanted)?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(Tab { session, ahead_us: 0.0 })
    }

    /// Slows the main thread down by this factor from now on.
    pub(super) fn slow_down(&self, cdp: &mut Cdp, times: u32) -> anyhow::Result<()> {
        let wanted = json!({ "rate": times });
        cdp.call(Some(&self.session), "Emulation.setCPUThrottlingRate", &wanted)?;
        Ok(())
    }

    /// Requests the value of an expression, and awaits it if it is a promise.
    pub(super) fn ask(&self, cdp: &mut Cdp, expression: &str) -> anyhow::Result<Asked> {
        let wanted = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
        });
        cdp.ask(Some(&self.session), "Runtime.evaluate", &wanted)
    }

    /// Sends a mouse press or release without effect; the answer arrives once the page has handled it.
    pub(super) fn input(&self, cdp: &mut Cdp, is_press: bool) -> anyhow::Result<Asked> {
        let kind = if is_press { "mousePressed" } else { "mouseReleased" };
        let wanted = json!({ "type": kind, "x": 1, "y": 1, "button": "left", "clickCount": 1 });
        cdp.ask(Some(&self.session), "Input.dispatchMouseEvent", &wanted)
    }

    pub(super) fn answer<T: DeserializeOwned>(cdp: &mut Cdp, asked: &Asked) -> anyhow::Result<T> {
        let mut answer = cdp.answer(asked)?;
        let details = &answer["exceptionDetails"];
        if !details.is_null() {
            let description =
                details["exception"]["description"].as_str().or(details["text"].as_str());
            let first = description.unwrap_or_default().lines().next().unwrap_or_default();
            return Err(anyhow!("the page says: {}", first.trim_start_matches("Error: ")));
        }
        Ok(serde_json::from_value(answer["result"]["value"].take())?)
    }

    pub(super) fn evaluate<T: DeserializeOwned>(
        &self,
        cdp: &mut Cdp,
        expression: &str,
    ) -> anyhow::Result<T> {
        let asked = self.ask(cdp, expression)?;
        Tab::answer(cdp, &asked)
    }

    fn wait_until(&self, cdp: &mut Cdp, condition: &str, url: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + LOADED_WITHIN;
        while Instant::now() < deadline {
            if self.evaluate(cdp, condition)? {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the tab did not load {url} within {} s", LOADED_WITHIN.as_secs())
    }

    fn compare_clocks(&mut self, cdp: &mut Cdp) -> anyhow::Result<()> {
        let mut quickest_us = u64::MAX;
        for _ in 0..CLOCK_LOOKS {
            let asked_us = monotonic_us();
            let page_ms: f64 = self.evaluate(cdp, "lab.clockMs()")?;
            let took_us = monotonic_us() - asked_us;
            if took_us < quickest_us {
                quickest_us = took_us;
                self.ahead_us = (asked_us + took_us / 2) as f64 - page_ms * 1000.0;
            }
        }
        Ok(())
    }

    /// Converts a time of the machine's clock into the page's, ms.
    pub(super) fn page_ms(&self, at_us: u64) -> f64 {
        (at_us as f64 - self.ahead_us) / 1000.0
    }
}
