// SPDX-License-Identifier: Apache-2.0
// What the fake pair sends about a group: every field of the API, and a forecast.

export const MIB = 1024 * 1024;
export const WRITE_BYTES = 16 * 1024;
export const START_MS = Date.UTC(2026, 10, 20, 21, 30, 0);

export function groupStatus(pair, node) {
  const other = pair.other(node);
  const isPrimary = node.role === "primary";
  const [word, why] = pair.verdict(node);
  const connected = pair.connected();
  if (pair.queue + pair.dirty < 2 * MIB) pair.lag_since = null;
  else pair.lag_since ??= pair.now();
  const lag = {
    bytes: pair.split ? node.only : pair.queue + pair.dirty,
    seconds: pair.lag_since === null ? pair.settings.rtt_ms / 1000 : (pair.now() - pair.lag_since) / 1000,
    writes: Math.round(pair.queue / WRITE_BYTES),
  };
  const times = {
    count: node.counters.writes,
    p50_us: pair.settings.mode === "sync" ? pair.settings.rtt_ms * 1000 + 180 : 180,
    p99_us: pair.settings.mode === "sync" ? pair.settings.rtt_ms * 1400 + 500 : 450,
    most_us: 9000,
  };
  return {
    name: pair.group,
    node: node.name,
    verdict: { word, since_ms: node.since_ms, why },
    role: node.role,
    state: pair.state(node),
    state_since_ms: node.since_ms,
    state_reason: why,
    next: pair.next(node),
    generation: "1.92cc",
    consistent: node.consistent,
    safe_copy: node.consistent
      ? null
      : { generation: "1.92cc", position: 9, since_ms: pair.now() - 4000, kept_bytes: MIB, sound: true },
    fault: node.fault,
    lease: null,
    mode: { requested: pair.settings.mode, effective: connected ? pair.settings.mode : null },
    volumes: [
      {
        name: "data",
        size_bytes: 256 * MIB,
        member: `/dev/vg0/${node.name}-data`,
        member_state: "responds",
        members: [],
        unmerged_bytes: 0,
        blank_bytes: 0,
        copy_waits: null,
        io: "direct",
        service: "here",
        sparse: false,
        dirty_bytes: isPrimary ? pair.dirty : 0,
        verified: null,
        clients: isPrimary ? 2 : 0,
      },
    ],
    queue: isPrimary
      ? {
          bytes: pair.queue,
          items: lag.writes,
          bytes_high_water: pair.high,
          bytes_high_water_at_ms: START_MS,
          items_high_water: 0,
          items_high_water_at_ms: START_MS,
          high_water_since_ms: START_MS,
          bound_reason: "the file names it",
          bound_bytes: 64 * MIB,
          bound_items: 4194304,
          bound_source: "file",
          when_full_connected: "block",
          when_full_disconnected: "log",
        }
      : null,
    throttle: { waiting: 0, count: 0, total_seconds: 0, refused: 0, dropped: 0 },
    answers: isPrimary ? { since_ms: START_MS, writes: times, flushes: { ...times, count: 0 } } : null,
    lag,
    cursors: {
      accepted: 0,
      completed: 0,
      durable: 0,
      peer_sent: 0,
      peer_received: 0,
      peer_completed: 0,
      peer_durable: 0,
    },
    last_write_ms: node.last_write_ms,
    peer: peerStatus(pair, node, other, connected),
    seeding: null,
    drill: null,
    trace: null,
    sync:
      pair.sync && connected
        ? {
            dirty_bytes: pair.dirty,
            to_copy_bytes: pair.sync.to_copy,
            copied_bytes: pair.sync.copied,
            rate_bytes_per_second: pair.sync.rate ?? 0,
            eta_seconds: pair.sync.rate ? pair.dirty / pair.sync.rate : null,
            shipped_bytes: 0,
            converges: pair.settings.rate_mbit * 125_000 > pair.settings.writes_per_second * WRITE_BYTES,
            by_digests: true,
          }
        : null,
    verify: { run: null, differing: 0, differing_bytes: 0, examples: [], stopped: null },
    counters: structuredClone(node.counters),
    metadata: { writes: 0, flushes: 0 },
    before_images: { reads: 0, writes: 0, flushes: 0 },
  };
}

function peerStatus(pair, node, other, connected) {
  const buffer = { requested_bytes: null, actual_bytes: 131072 };
  const connection = connected ? "connected" : pair.split && pair.link_up && other.running ? "refused" : "connecting";
  const reason = {
    connected: "the handshake is complete",
    refused: `two-primaries: both ${node.name} and ${other.name} are primary`,
    connecting: `${other.name} made no progress for 1.0 s`,
  }[connection];
  return {
    name: other.name,
    address: "10.0.1.1:7121",
    connection,
    connection_since_ms: node.since_ms,
    reason,
    age_seconds: connected ? 0.1 : (pair.now() - node.since_ms) / 1000,
    role: other.role,
    state: other.state,
    copy: other.consistent ? "complete" : "inconsistent",
    fault: connected ? other.fault : null,
    only_there_bytes: pair.split ? other.only : null,
    last_write_ms: other.last_write_ms,
    key: null,
    attempts: null,
    wrong_key: pair.wrong_key,
    heartbeat_us: pair.settings.rtt_ms * 1000,
    heartbeat_least_us: pair.settings.rtt_ms * 1000,
    link: connected
      ? {
          rtt_us: pair.settings.rtt_ms * 1000 + 90,
          rtt_least_us: pair.settings.rtt_ms * 1000,
          retransmits: 0,
          congestion_control: "cubic",
          send_buffer: buffer,
          receive_buffer: buffer,
          window_bytes: 65536,
          busy_seconds: 0,
          peer_buffer_limited_seconds: 0,
          send_buffer_limited_seconds: 0,
          delivery_rate_bytes_per_second: 11_900_000,
        }
      : null,
  };
}

export function forecasts(pair) {
  if (!pair.forecast) return null;
  const { rtt_ms, rate_mbit, mode, writes_per_second } = pair.settings;
  const written = writes_per_second * WRITE_BYTES;
  const room = rate_mbit * 125_000 - written;
  return {
    source: "the settings of the simulation, by the same model as `helio plan`",
    p50_us: mode === "sync" ? rtt_ms * 1000 + 180 : 190,
    p99_us: mode === "sync" ? rtt_ms * 1300 + 400 : 420,
    lag_bytes: (written * rtt_ms) / 1000,
    lag_seconds: rtt_ms / 1000,
    sent_bytes_per_second: Math.min(written, rate_mbit * 125_000),
    queue_high_bytes: 6 * MIB,
    queue_full_seconds: pair.connected() || pair.dirty > 0 || written === 0 ? null : (64 * MIB - pair.queue) / written,
    catch_up_seconds: pair.sync ? pair.dirty / Math.max(1, room) : null,
    converges: pair.sync ? room > 0 : null,
    advice: pair.advice,
  };
}
