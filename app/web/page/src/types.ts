// SPDX-License-Identifier: Apache-2.0
// What the server sends: the events of `live`, and the parts of a status that the page shows. Words are open: a word that
// this page does not have is shown as it is.

export interface View {
  interval_ms: number;
  nodes: NodeView[];
  simulation: Simulation | null;
}

export interface NodeView {
  label: string;
  status: Status | null;
  error: ApiError | null;
  age_ms: number;
  groups: Record<string, GroupView>;
}

export interface GroupView {
  offers: Offer[];
  choices: Choice[];
  forecast: Forecast | null;
  snapshots: Snapshot[];
  attachments: Attachment[];
}

/** A volume that is attached as a device, or will be. */
export interface Attachment {
  volume: string;
  state: string;
  reason?: string | null;
  path: string;
  used_by: string[];
}

export interface Snapshot {
  name: string;
  at_ms: number;
  preserved_bytes: number;
  consistent: boolean;
  missing: string | null;
}

export interface Offer {
  action: string;
  label: string;
  command: string;
  effect: string;
  stake: string;
  input: { label: string; value: string; pattern: string } | null;
  advised: boolean;
  common: boolean;
  /** It makes its node primary, without force. */
  takes_over: boolean;
  /** It is shown as a step of a choice alone. */
  only_step: boolean;
}

/** To keep the writes of one node, and discard those of the other. */
export interface Choice {
  keeps: string;
  discards: string;
  /** What is left to do, in this order. */
  steps: Step[];
  /** The page shows it. If false, only a page on which one of its steps was done shows it. */
  advised: boolean;
}

/** An action of a node, by the command that does the same. */
export interface Step {
  node: string;
  action: string;
}

export interface Forecast {
  source: string;
  p50_us: number | null;
  p99_us: number | null;
  lag_bytes: number | null;
  lag_seconds: number | null;
  sent_bytes_per_second: number | null;
  queue_high_bytes: number | null;
  queue_full_seconds: number | null;
  catch_up_seconds: number | null;
  converges: boolean | null;
  advice: Advice[];
}

export interface Advice {
  label: string;
  verdict: string;
  what: string;
  do: string | null;
}

export interface ApiError {
  error: string;
  code: string;
  hint: string | null;
  at_stake?: { text: string } | null;
  /** The actions that its hint recommends, on the node that reports it. */
  offers?: Offer[];
}

export interface Acted {
  message: string;
  warnings: string[];
}

export interface Simulation {
  time_ms: number;
  speed: number;
  /** The speed that the host of the simulation reaches; null if it is not known. */
  reached: number | null;
  settings: Settings;
  link_up: boolean;
  nodes: SimulatedNode[];
  clients: string;
  seed: number;
}

export interface Settings {
  rtt_ms: number;
  rate_mbit: number;
  loss_percent: number;
  writes_per_second: number;
  mode: string;
}

export interface SimulatedNode {
  name: string;
  running: boolean;
  disk: string;
  flushes: string;
  serves: boolean;
}

export interface Happening {
  node: number;
  event: DaemonEvent;
}

export type Value = string | number | boolean | null;

/** An event of a daemon. */
export interface DaemonEvent {
  sequence: number;
  at_ms: number;
  event: string;
  object?: string | null;
  group?: string | null;
  name?: string | null;
  fields?: Record<string, Value>;
  changed?: Record<string, { old: Value; new: Value }>;
  why?: string | null;
  missed?: number | null;
}

export interface Status {
  node: string;
  at_ms: number;
  daemon_uptime_seconds: number;
  groups: Group[];
  failed: FailedGroup[];
}

export interface FailedGroup {
  name: string;
  since_ms: number;
  reason: string;
  hint: string;
}

/** A group as one node reports it. */
export interface Group {
  name: string;
  node: string;
  verdict: { word: string; since_ms: number; why: string };
  role: string;
  state: string;
  state_since_ms: number;
  next: string;
  consistent: boolean;
  safe_copy: { since_ms: number; kept_bytes: number; sound: boolean } | null;
  fault: string | null;
  lease: { held: boolean; seconds: number | null } | null;
  mode: { requested: string; effective: string | null };
  volumes: Volume[];
  queue: Queue | null;
  throttle: { waiting: number; refused: number; dropped: number };
  restoring?: { snapshot: string; left_bytes: number; failed?: string | null } | null;
  answers: { writes: Times; flushes: Times } | null;
  lag: { bytes: number; seconds: number; writes: number };
  last_write_ms: number | null;
  peer: Peer | null;
  sync: Sync | null;
  seeding: { since_ms: number; changed_bytes: number } | null;
  verify: { run: VerifyRun | null; differing: number; differing_bytes: number; stopped: string | null };
  drill: { last: DrillResult; last_success: DrillResult | null } | null;
  counters: Counters;
}

export interface Volume {
  name: string;
  size_bytes: number;
  member: string;
  member_state: string;
  members: Member[];
  verified: { at_ms: number; differed_bytes: number; repaired: boolean } | null;
  dirty_bytes: number;
  clients: number;
}

export interface Member {
  number: number;
  path: string;
  state: string;
  percent: number | null;
}

export interface Queue {
  bytes: number;
  items: number;
  bytes_high_water: number;
  bound_bytes: number;
  bound_items: number;
  when_full_connected: string;
  when_full_disconnected: string;
}

export interface Times {
  count: number;
  p50_us: number;
  p99_us: number;
}

export interface Peer {
  name: string;
  connection: string;
  reason: string;
  age_seconds: number | null;
  role: string | null;
  state: string | null;
  fault: string | null;
  only_there_bytes: number | null;
  last_write_ms: number | null;
  /** The last connection that was refused because of its key. */
  wrong_key?: { key: string; address: string; age_seconds: number } | null;
  link: { rtt_us: number } | null;
}

export interface Sync {
  to_copy_bytes: number;
  copied_bytes: number;
  rate_bytes_per_second: number;
  eta_seconds: number | null;
  shipped_bytes: number;
  converges: boolean;
}

export interface VerifyRun {
  volume: string;
  compared_bytes: number;
  total_bytes: number;
}

export interface DrillResult {
  at_ms: number;
  duration_seconds: number;
  failure: string | null;
}

export interface Counters {
  write_bytes: number;
  sent_bytes: number;
  received_bytes: number;
  timed: number;
  timed_seconds: number;
}
