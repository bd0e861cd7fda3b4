//! What a restart of the server has lost: agents that were there do not come back
//! (`wire/goldfive.md` §0.6).

use std::{sync::Arc, time::Duration};

use registry::{
    Run, Settled, Wish,
    approval::DeliveryState,
    names::ControlId,
    run::{Presence, Source},
};
use tokio::time::timeout;

use super::{
    delivery::Delivery,
    facts,
    persist::{hex, until_judged, warn_of},
};
use crate::serve::owner::Owner;

/// How long a start may be held up by a disk that is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// After a start, and before anybody is let in: marks away the runs whose agents are gone, and ends what was on its way
/// to them. It may have arrived; nobody will say.
pub async fn part_from_the_lost(owner: &Owner) {
    if timeout(PATIENCE, part(owner)).await.is_err() {
        tracing::error!(
            "goldfive: nothing can be recorded; agents that are gone may be shown as there"
        );
    }
}

async fn part(owner: &Owner) {
    let (runs, decided) = lost(owner);
    for run in &runs {
        part_from(owner, run).await;
    }
    for settled in decided {
        let control = match &settled.delivery {
            Some(delivery) => Ok(delivery.control.clone()),
            None => ControlId::parse(&format!("ctl_{}", hex().await)),
        };
        if let Ok(control) = control {
            let delivery = Delivery::of_decision(&settled, control);
            delivery.lost(owner, UNKNOWN).await;
        }
    }
}

/// What a restart means for what was on its way.
const UNKNOWN: &str =
    "the server was restarted before the agent answered; whether it took this is not known";

fn lost(owner: &Owner) -> (Vec<Arc<Run>>, Vec<Arc<Settled>>) {
    let state = owner.state();
    let theirs = |run: &&Arc<Run>| run.key.source == Source::Goldfive && !run.state.is_over();
    let runs = state.runs().filter(theirs).cloned().collect();
    let decided = state.all_settled().filter(|it| is_under_way(it));
    (runs, decided.cloned().collect())
}

fn is_under_way(settled: &Settled) -> bool {
    let sent = settled
        .delivery
        .as_ref()
        .is_none_or(|delivery| delivery.state == DeliveryState::Sent);
    settled.approval.from.source == Source::Goldfive && settled.decision().is_some() && sent
}

async fn part_from(owner: &Owner, run: &Run) {
    if run.presence == Presence::Attached {
        let by = facts::principal(run.key.agent.raw());
        let away = Wish::Attend {
            run: run.id,
            here: false,
        };
        let told = until_judged(|| owner.submit(by.clone(), away.clone())).await;
        if let Err(refusal) = told {
            warn_of("not recorded", &refusal);
        }
    }
    let under_way = run.controls.iter();
    for control in under_way.filter(|control| control.waits_for_ack()) {
        Delivery::of_order(run, control).lost(owner, UNKNOWN).await;
    }
}
