// The board in the browser. It asks the admin API, and follows its stream of events: whatever
// changes a group causes one, so a group is read again soon after an event, and now and then.

const GROUPS_EVERY_MS = 2000, GROUP_EVERY_MS = 1000, SLACK_MS = 200, QUIET_EVERY_MS = 10000, RETRY_MS = 2000;
const STALE_AFTER_MS = 3000, AGE_EVERY_MS = 250, LOOK_MAX_MS = 5000, ASSESS_MAX_MS = 70000;
const STORY_MAX = 500, LOOKS_MAX = 600, CELLS_MAX = 2000, ROWS_MAX = 1000;
const BUSY = { ToldToRejoin: "told", Joining: "joining", Syncing: "joining", GivingUp: "moving", Waiting: "moving" };
const POLICIES = { hold: "ON HOLD", pause: "PAUSED" };
const MARKS = new Set(["group_converted", "group_adopted", "hosting_started", "group_forwarded", "group_epoch_bumped", "command_given"]);
const TROUBLE = new Set(["step_made_worse", "client_flapped", "group_taken", "generation_went_back", "conversion_refused", "member_fenced", "adoption_undone", "upstream_lost"]);
// Clients choose their names: no character of theirs may hide, or turn the direction of a line.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff]/g;

const $ = (id) => document.getElementById(id);
const seen = (text) => String(text).replace(UNSEEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const sum = (partitions) => Object.values(partitions).reduce((n, some) => n + some.length, 0);

function make(tag, fields = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name in node && name !== "role") node[name] = value; else node.setAttribute(name, value);
  }
  node.append(...children.map((each) => (each instanceof Node ? each : seen(each))));
  return node;
}

function write(node, text) {  // touches the page only if something has changed
  const shown = seen(text);
  if (node.textContent !== shown) node.textContent = shown;
}

const known = (figure) => (figure === null ? "?" : figure);
const falls = (name) => ["new", "unowned", "lag", "behind"].includes(name);
const AGES = [[86400, "d"], [3600, "h"], [60, "min"], [0, "s"]];

function age(ms) {  // an upper limit, so it is rounded up
  if (ms === null) return "?";
  const seconds = Math.ceil(ms / 1000), [length, unit] = AGES.find(([length]) => seconds >= 2 * length);
  return `${Math.floor(seconds / (length || 1))} ${unit}`;
}

const tenths = (figure) => (figure === null ? "?" : figure.toFixed(1));
const clock = (atMs) => new Date(atMs).toLocaleTimeString();
const asOf = (atMs) => (atMs === null ? "" : `as the cluster described it at ${clock(atMs)}`);

// -- the API ---------------------------------------------------------------------------------

let token = sessionStorage.getItem("token") || "";

class Refused extends Error {
  constructor(status, reason) { super(reason); this.status = status; }
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.status === 401) $("login").hidden = false;
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, told.reason || (told.reasons || []).join("; ") || answer.statusText);
  }
  return answer;
}

let answeredMs = 0, unansweredMs = null;  // since when the gateway has not answered a look

// Looks follow each other every second, so what is shown is as old as the latest answer. A page
// that was hidden has not looked: it is not as old as that for want of an answer.
async function read(path, limitMs = LOOK_MAX_MS) {
  unansweredMs ??= Math.max(answeredMs, performance.now() - GROUP_EVERY_MS);
  try {
    const found = await (await ask(path, { signal: AbortSignal.timeout(limitMs) })).json();
    unansweredMs = null;
    return found;
  } catch (error) {
    if (error instanceof Refused) unansweredMs = null;
    throw error;
  } finally {
    if (unansweredMs === null) answeredMs = performance.now();
  }
}

const isStale = () => unansweredMs !== null && performance.now() - unansweredMs >= STALE_AFTER_MS;
const about = (group) => encodeURIComponent(group);

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("token", token);
  $("login").hidden = true;
  $("token").value = "";
  wanted.list = wanted.group = true;
});

// -- what is shown -----------------------------------------------------------------------------

let groups = [], revision = 0, opened = null, page = null, story = [], looks = new Map();
let client = null, sortedBy = "group";
const wanted = { list: true, group: true };

// The address has all that chooses what is shown, so a link shows another person the same.
function route() {
  const chosen = new URLSearchParams(location.hash.slice(1)), found = chosen.get("group");
  if (found !== opened) { page = null; story = []; looks = new Map(); }
  opened = found;
  client = opened === null ? chosen.get("client") : null;
  if (opened === null && client === null) {
    $("find").value = chosen.get("find") || "";
    $("show").value = kinds[chosen.get("show")] ? chosen.get("show") : "";
    sortedBy = SORTS[chosen.get("sort")] ? chosen.get("sort") : "group";
    $("back").href = $("client-back").href = location.hash || "#";
    drawList();
  }
  $("list").hidden = opened !== null || client !== null;
  $("group").hidden = opened === null;
  $("client").hidden = client === null;
  const title = opened ?? client;
  document.title = title === null ? "groupferry" : `${seen(title)} - groupferry`;
  if (client !== null) {
    write($("client-title"), client);
    $("client-members").tBodies[0].replaceChildren();
    write($("client-none"), "loading…");
    $("client-none").hidden = false;
    clientMs = -Infinity;
  }
  if (opened !== null) {
    write($("group-title"), opened);
    write($("group-facts"), "");
    write($("stands"), "loading…");
    for (const id of ["progress", "numbers", "commands", "partitions", "story"]) $(id).replaceChildren();
    $("commands").command = undefined;
    $("members").tBodies[0].replaceChildren();
    loadStory();
  }
  wanted.list = wanted.group = true;
  refresh();
}

async function readGroups() {
  const listed = new Map(groups.map((group) => [group.group_id, group]));
  let after = "", since = revision, now = 0;
  do {
    const part = await read(`api/groups?after=${about(after)}&since=${since}`);
    if (after === "") {
      now = part.revision;
      if (part.is_complete) { since = 0; listed.clear(); }
      part.gone.forEach((group) => listed.delete(group));
    }
    for (const group of part.groups) listed.set(group.group_id, group);
    after = part.next_after;
  } while (after !== null);
  groups = [...listed.values()].sort((one, other) => (one.group_id < other.group_id ? -1 : 1));
  revision = now;
}

const mixed = (group) => group.native_members > 0 && group.native_members < group.members;
const kinds = {
  "": () => true, waits: (g) => g.blocker !== null && g.mode !== "forwarded", mixed,
  hosted: (g) => g.mode === "hosted", forwarded: (g) => g.mode === "forwarded",
};

const falling = (figure) => (figure === null ? Infinity : -figure);
const SORTS = {
  group: (g) => g.group_id, mode: (g) => g.mode, state: (g) => g.state, new: (g) => falling(g.native_members),
  unowned: (g) => falling(g.unowned_partition_s), lag: (g) => falling(g.lag), behind: (g) => falling(g.behind_ms),
  waits: (g) => (kinds.waits(g) ? 0 : 1),
};

function choose() {  // keeps the choice in the address, without a step back in the history for each key
  const chosen = new URLSearchParams();
  if ($("find").value) chosen.set("find", $("find").value);
  if ($("show").value) chosen.set("show", $("show").value);
  if (sortedBy !== "group") chosen.set("sort", sortedBy);
  history.replaceState(null, "", chosen.size ? `#${chosen}` : location.pathname + location.search);
  $("back").href = $("client-back").href = location.hash || "#";
  drawList();
}

function drawList() {
  for (const head of $("groups").tHead.rows[0].cells) {
    head.setAttribute("aria-sort", head.dataset.sort === sortedBy ? (falls(sortedBy) ? "descending" : "ascending") : "none");
  }
  const text = $("find").value.toLowerCase(), kind = kinds[$("show").value];
  const found = groups.filter((g) => kind(g) && g.group_id.toLowerCase().includes(text));
  const key = SORTS[sortedBy];
  if (sortedBy !== "group") found.sort((one, other) => (key(one) < key(other) ? -1 : key(one) > key(other) ? 1 : 0));
  const body = $("groups").tBodies[0];
  const rows = new Map([...body.rows].map((row) => [row.group, row]));
  found.slice(0, ROWS_MAX).forEach((group, at) => {
    const row = rows.get(group.group_id) || groupRow(group.group_id);
    rows.delete(group.group_id);
    drawRow(row, group);
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
  });
  for (const row of rows.values()) row.remove();
  const more = found.length > ROWS_MAX ? `, the first ${ROWS_MAX} are shown` : "";
  write($("count"), `${found.length} of ${groups.length}${more}`);
  $("none").hidden = groups.length > 0;
}

function groupRow(group) {
  const row = make("tr");
  row.group = group;
  const link = make("a", { href: `#group=${about(group)}` }, make("bdi", {}, group));
  row.append(make("td", {}, link), make("td"), make("td"), make("td", { className: "number" },
    make("span", { className: "bar", ariaHidden: "true" }, make("span")), make("span")),
    make("td", { className: "number" }), make("td", { className: "number" }), make("td", { className: "number" }), make("td"));
  return row;
}

function drawRow(row, group) {
  const [, mode, state, share, unowned, lag, behind, waits] = row.cells;
  write(lag, known(group.lag));
  lag.title = group.lag === null ? "" : `at ${clock(group.lag_at_ms)}`;
  write(behind, age(group.behind_ms));
  write(mode, group.mode === "hosted" ? "gateway" : group.mode === "forwarded" ? "cluster" : group.mode);
  write(state, [group.type, group.state].filter(Boolean).join(" ") || "?");
  const done = group.members ? (100 * group.native_members) / group.members : 0;
  share.firstChild.className = group.members ? "bar" : "bar none";
  share.firstChild.firstChild.style.width = `${done}%`;
  write(share.lastChild, `${known(group.native_members)} of ${known(group.members)}`);
  write(unowned, `${tenths(group.unowned_partition_s)} p·s`);
  unowned.className = group.unowned_partitions || group.owned_twice ? "number bad" : "number";
  write(waits, group.owned_twice ? `OWNED TWICE: ${group.owned_twice}` : group.gateway ? group.stands : group.blocker || "");
  waits.className = group.owned_twice ? "bad" : group.mode === "forwarded" || group.gateway ? "" : "warn";
}

// -- one group ---------------------------------------------------------------------------------

function drawGroup() {
  const facts = [page.mode === "hosted" ? "served by the gateway" : page.mode, POLICIES[page.policy], page.type, page.state,
    `epoch ${known(page.group_epoch)}`, page.assignor, page.mode === "forwarded" ? asOf(page.described_ms) : `anchor ${page.anchor}`];
  write($("group-facts"), facts.filter(Boolean).join(" · "));
  write($("stands"), `${page.stands}${page.blocker ? `; ${page.blocker}` : ""}`);
  write($("steps"), [page.next_step, page.last_step].filter(Boolean).join(". "));
  $("stands").className = page.blocker && page.mode !== "forwarded" ? "warn" : "";
  drawProgress();
  drawNumbers();
  drawCommands();
  drawMembers();
  drawPartitions();
}

function drawProgress() {
  const line = $("progress"), classic = page.members - page.native_members;
  if (!line.firstChild) line.append(make("span", { className: "consumer" }), make("span", { className: "classic" }));
  line.firstChild.style.width = page.members ? `${(100 * page.native_members) / page.members}%` : "0";
  line.lastChild.style.width = page.members ? `${(100 * classic) / page.members}%` : "0";
  line.setAttribute("aria-label", `${page.native_members} of ${page.members} members use the new protocol`);
}

function drawNumbers() {
  const since = page.since_ms ? clock(page.since_ms) : "now";
  const shown = [
    ["without an owner now", known(page.unowned_partitions), page.unowned_partitions ? "warn" : ""],
    ["partition-seconds without one", tenths(page.unowned_partition_s), ""],
    ["times a member gave up partitions", known(page.disturbed), ""],
    ["conversions", known(page.conversions), ""],
    ["owned twice", known(page.owned_twice), page.owned_twice ? "bad" : page.owned_twice === 0 ? "good" : ""],
    [`records behind${page.lag_at_ms === null ? "" : ` at ${clock(page.lag_at_ms)}`}`
      + (page.lag_before === null ? "" : `, ${page.lag_before} before the roll`),
      page.lag === null ? "?" : page.lag, page.lag !== null && page.lag_before !== null && page.lag > page.lag_before ? "warn" : ""],
    ["behind, at most", age(page.behind_ms), ""],
  ];
  const list = $("numbers");
  if (list.children.length !== shown.length) {
    list.replaceChildren(...shown.map(() => make("div", {}, make("dt"), make("dd"))));
  }
  shown.forEach(([name, value, look], at) => {
    const [dt, dd] = list.children[at].children;
    write(dt, name);
    write(dd, value);
    dd.className = look;
    list.children[at].title = `since ${since}`;
  });
}

const OFFERED = {
  forwarded: (policy) => ["adopt", policy === "allow" ? "hold" : "allow", "readiness"],
  hosted: (policy) => [...["hold", "pause", "allow"].filter((each) => each !== policy), "release", "readiness"],
};

function drawCommands() {
  const line = $("commands"), names = (OFFERED[page.mode] || (() => []))(page.policy);
  if (line.command === names.join()) return;
  line.command = names.join();
  line.replaceChildren(...names.map((name) => {
    const button = make("button", { type: "button" }, name === "readiness" ? "Readiness…" : COMMANDS[name].label);
    button.addEventListener("click", () => (name === "readiness" ? assess() : order(name)));
    return button;
  }));
}

function drawMembers() {
  const body = $("members").tBodies[0], bands = [];
  const rows = new Map([...body.rows].map((row) => [row.member, row]));
  const here = new Set(page.member_list.map((each) => each.member_id));
  for (const id of looks.keys()) if (!here.has(id)) looks.delete(id);
  page.member_list.forEach((member, at) => {
    const id = member.member_id, row = rows.get(id) || memberRow(id);
    rows.delete(id);
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
    const [client, phase, owns, pending, software, band] = row.cells;
    write(client.firstChild, member.client_id || id);
    client.firstChild.href = `#client=${about(member.client_id)}`;
    client.title = seen(`${id} at ${member.client_host}${member.instance_id ? `, instance ${member.instance_id}` : ""}`);
    write(phase, `${member.protocol === "consumer" ? "new" : "classic"}, ${stage(member)}`);
    phase.className = member.silent_ms !== null ? "bad" : member.phase && member.phase !== "Stable" ? "warn" : "";
    write(owns, member.owned === null ? "?" : sum(member.owned));
    const gives = sum(member.to_give_up), gets = sum(member.to_get);
    write(pending, [gives ? `-${gives}` : "", gets ? `+${gets}` : ""].filter(Boolean).join(" "));
    write(software, member.software || "");
    const seenSoFar = looks.get(id) || [];
    looks.set(id, seenSoFar);
    seenSoFar.push(member.silent_ms !== null ? "silent" : BUSY[member.phase] || member.protocol);
    if (seenSoFar.length > LOOKS_MAX) seenSoFar.shift();
    bands.push([band.firstChild, seenSoFar]);
  });
  for (const row of rows.values()) row.remove();
  drawBands(bands);
}

const stage = (member) => (member.silent_ms !== null ? `silent for ${Math.floor(member.silent_ms / 1000)} s` : member.phase || "?");

function memberRow(id) {
  const row = make("tr", {}, make("td", {}, make("a", { dir: "auto" })), make("td"), make("td", { className: "number" }),
    make("td", { className: "number" }), make("td"), make("td", {}, make("canvas", { className: "band", height: 14, ariaHidden: "true" })));
  row.member = id;
  return row;
}

function drawBands(bands) {  // the layout is asked for once, before anything is drawn
  if (!bands.length) return;
  const width = bands[0][0].clientWidth || 200, style = getComputedStyle(document.documentElement);
  const colors = Object.fromEntries(["classic", "consumer", "told", "joining", "moving", "silent"]
    .map((each) => [each, style.getPropertyValue(`--${each}`)]));
  for (const [canvas, band] of bands) drawBand(canvas, band, width, colors);
}

function drawBand(canvas, band, width, colors) {
  if (canvas.width !== width) canvas.width = width;
  const paint = canvas.getContext("2d"), step = 3;
  paint.clearRect(0, 0, width, 14);
  const shown = band.slice(-Math.floor(width / step));
  shown.forEach((each, at) => {
    const tall = each === "classic" || each === "consumer" ? 6 : 12;
    paint.fillStyle = colors[each];
    paint.fillRect(width - (shown.length - at) * step, (14 - tall) / 2, step, tall);
  });
}

function drawPartitions() {
  const topics = new Map(), lags = new Map(page.partitions.map((each) => [`${each.partition} ${each.topic}`, each]));
  const cell = (topic, number) => {
    if (!topics.has(topic)) topics.set(topic, new Map());
    const cells = topics.get(topic);
    if (!cells.has(number)) cells.set(number, { owner: null, leaving: false, next: null, lag: lags.get(`${number} ${topic}`) });
    return cells.get(number);
  };
  for (const each of page.partitions) if (page.mode !== "forwarded") cell(each.topic, each.partition);
  for (const member of page.member_list) {
    for (const [topic, some] of Object.entries(member.owned || {})) for (const n of some) cell(topic, n).owner = member;
    for (const [topic, some] of Object.entries(member.to_give_up)) for (const n of some) cell(topic, n).leaving = true;
    for (const [topic, some] of Object.entries(member.to_get)) for (const n of some) cell(topic, n).next = member;
  }
  const box = $("partitions"), lists = new Map([...box.querySelectorAll(".topic")].map((each) => [each.topic, each]));
  let left = CELLS_MAX, total = 0;
  const made = [...topics].sort(([a], [b]) => (a < b ? -1 : 1)).map(([topic, cells]) => {
    total += cells.size;
    const some = [...cells].sort(([a], [b]) => a - b).slice(0, Math.max(0, left));
    left -= some.length;
    const one = lists.get(topic) || make("div", { className: "topic" }, make("h4", {}, make("bdi", {}, topic)), make("ul", { className: "cells" }));
    one.topic = topic;
    while (one.lastChild.children.length > some.length) one.lastChild.lastChild.remove();
    some.forEach(([number, each], at) => drawPartition(one.lastChild.children[at] || one.lastChild.appendChild(make("li")), number, each));
    return one;
  });
  if (!made.length) made.push(make("p", { className: "note" }, page.mode === "forwarded" ? "The cluster assigns them." : "None."));
  if (total > CELLS_MAX) made.push(make("p", { className: "note" }, `${total - CELLS_MAX} more partitions`));
  if (made.length !== box.children.length || made.some((each, at) => box.children[at] !== each)) box.replaceChildren(...made);
}

function drawPartition(node, number, { owner, leaving, next, lag }) {
  const who = owner ? owner.client_id || owner.member_id : "nobody";
  const then = next && next !== owner ? `, next ${next.client_id || next.member_id}` : "";
  const look = owner ? [owner.protocol, leaving ? "leaving" : ""].filter(Boolean).join(" ") : "unowned";
  const behind = lag ? `, ${known(lag.lag)} behind (at most ${age(lag.behind_ms)})` : "";
  const text = seen(`${who}${leaving ? ", giving it up" : ""}${then}${behind}`);
  if (node.textContent === String(number) && node.className === look && node.title === text) return;
  node.textContent = number;
  node.className = look;
  node.title = text;
  node.setAttribute("aria-label", `partition ${number}: ${text}`);
}

// -- one client ----------------------------------------------------------------------------------

function drawClient(found) {
  write($("client-none"), "No group has a member with this client id.");
  $("client-none").hidden = found.members.length > 0;
  $("client-members").tBodies[0].replaceChildren(...found.members.map(({ group_id, member, blocker }) => make("tr", {},
    make("td", {}, make("a", { href: `#group=${about(group_id)}`, dir: "auto" }, group_id)),
    make("td", { className: member.silent_ms !== null ? "bad" : "" }, `${member.protocol === "consumer" ? "new" : "classic"}, ${stage(member)}`),
    make("td", { className: "number" }, String(member.owned === null ? "?" : sum(member.owned))),
    make("td", { className: "number" }, String(known(member.lag))),
    make("td", {}, blocker || ""))));
}

// -- the story -----------------------------------------------------------------------------------

async function loadStory() {
  const group = opened;
  try {
    const found = await read(`api/latest-events?group_id=${about(group)}`);
    if (group === opened) {
      const known = new Set(story.map((each) => each.position));
      story.push(...found.events.filter((e) => !known.has(e.position))
        .map((e) => ({ position: e.position, sentence: e.sentence, ...JSON.parse(e.line) })));
      story.sort((a, b) => a.position - b.position);
      drawStory();
    }
  } catch (error) { if (!(error instanceof Refused)) throw error; }
}

function drawStory() {
  const text = $("story-find").value.toLowerCase();
  const details = $("story-details").checked;
  const shown = story.filter((told) => details || told.sentence)
    .map((told) => [told, `${told.sentence} ${told.event} ${JSON.stringify(told.fields)}`])
    .filter(([, words]) => words.toLowerCase().includes(text)).slice(-STORY_MAX).reverse();
  const clients = new Map((page ? page.member_list : []).map((each) => [each.member_id, each.client_id]));
  $("story").replaceChildren(...shown.map(([told]) => {
    const fields = Object.entries(told.fields).map(([name, value]) => (name === "member_id" && clients.get(value)
      ? `${clients.get(value)} (${value})` : `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`));
    const words = details ? [make("b", {}, told.event.replaceAll("_", " ")), fields.join("  ")] : [told.sentence];
    const look = TROUBLE.has(told.event) ? "trouble" : MARKS.has(told.event) ? "mark" : "";
    return make("li", { className: look }, make("time", { dateTime: new Date(told.at_ms).toISOString() },
      new Date(told.at_ms).toLocaleTimeString()), ...words);
  }));
}

// -- commands --------------------------------------------------------------------------------------

const COMMANDS = {
  adopt: {
    label: "Adopt…", cannot: "cannot be adopted now",
    will: "The gateway takes the group over from the cluster. Its members, generation and assignments stay."
      + " Calls are held for about a tenth of a second. If a step fails, the cluster serves the group as before.",
    done: (outcome) =>
      outcome.is_marked
        ? `Adopted. ${outcome.is_known ? "It" : "Nobody knows this group yet; it"} is hosted from its next join on.`
        : `Adopted. Calls were held for ${outcome.held_ms} ms.`,
  },
  release: {
    label: "Release…", cannot: "cannot be released now",
    will: "The gateway gives the group back to the cluster. Its members see one rebalance, and keep their offsets."
      + " Its consumers can then be pointed at the cluster, one after another.",
    done: (outcome) => `Released. Its partitions had no owner for ${outcome.unowned_ms ?? 0} ms.`,
  },
  hold: {
    label: "Hold…", cannot: "cannot be held",
    will: "No further consumer switches to the new protocol: the next one that tries ends, and is told why."
      + " Members stay as they are, restart, and may go back to the classic protocol.",
    done: () => "The migration is on hold.",
  },
  pause: {
    label: "Pause…", cannot: "cannot be paused",
    will: "As a hold, and the group keeps its target assignment: no further partition moves, and those of"
      + " members that leave have no owner until you allow it again.",
    done: () => "The group is paused.",
  },
  allow: {
    label: "Allow…", cannot: "cannot be allowed",
    will: "Consumers may switch to the new protocol, and the target assignment follows the members again.",
    done: () => "The migration goes on.",
  },
};

async function command(name, fields) {
  const answer = await ask(`api/commands/${name}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields),
  });
  return answer.json();
}

async function order(name) {
  const group = opened, { label, cannot, will, done } = COMMANDS[name];
  let reasons;
  try { reasons = (await command(name, { group_id: group, dry_run: true })).reasons; }
  catch (error) { reasons = [error.message]; }
  if (reasons.length) {
    await confirmed(`${group} ${cannot}`, [make("p", {}, "This is in the way:"),
      make("ul", {}, ...reasons.map((each) => make("li", {}, each)))], null);
    return;
  }
  if (!await confirmed(`${label.replace("…", "")} ${group}?`, [make("p", {}, will)], label.replace("…", ""))) return;
  let told;
  try {
    const outcome = await command(name, { group_id: group });
    told = outcome.reasons.length ? outcome.reasons : [done(outcome)];
  } catch (error) { told = [error.message]; }
  await confirmed(group, told.map((each) => make("p", {}, each)), null);
  wanted.group = true;
}

async function assess() {
  const group = opened;
  let told;
  try {
    const found = await read(`api/readiness?group_id=${about(group)}`, ASSESS_MAX_MS);
    const part = (title, lines) => (lines.length ? [make("p", {}, title), make("ul", {}, ...lines.map((each) => make("li", {}, each)))] : []);
    told = [
      ...part("It cannot convert yet:", found.conversion_obstacles),
      ...(found.can_convert && found.direction === "classic->consumer" ? [make("p", {}, "It can convert: the first consumer with the new protocol begins the roll.")] : []),
      ...part("It cannot be adopted now:", found.adoption_obstacles),
      ...(found.can_be_adopted ? [make("p", {}, "It can be adopted now.")] : []),
      ...part("To change in the consumers before they switch:", found.to_change),
      ...part("Warnings:", found.warnings),
      ...part("Clients:", found.clients.map((each) => `${each.members} x ${[each.software_name, each.software_version].filter(Boolean).join(" ") || "unknown"}, `
        + `new protocol: ${each.speaks_consumer === null ? "unknown" : each.speaks_consumer ? "yes" : "no"}${each.defects.map((why) => `; ${why}`).join("")}`)),
    ];
  } catch (error) { told = [make("p", {}, error.message)]; }
  await confirmed(`Is ${group} ready?`, told, null);
}

function confirmed(title, content, yes) {
  const dialog = $("dialog");
  write($("dialog-title"), title);
  $("dialog-text").replaceChildren(...content);
  $("dialog-yes").hidden = yes === null;
  write($("dialog-yes"), yes || "");
  dialog.querySelector('[value="no"]').textContent = yes === null ? "Close" : "Cancel";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

// -- staying live ------------------------------------------------------------------------------------

let clientMs = -Infinity, listedMs = -Infinity, readMs = -Infinity, gatewayMs = -Infinity, isReading = false, isAgain = false;

async function refresh() {
  if (isReading) { isAgain = true; return; }
  isReading = true;
  try {
    do {
      isAgain = false;
      const now = performance.now();
      if (client !== null && now - clientMs >= GROUPS_EVERY_MS) {
        clientMs = now;
        const asked = client, found = await read(`api/client?client_id=${about(asked)}`);
        if (asked === client) drawClient(found);
      }
      if (opened === null && client === null && now - listedMs >= (wanted.list ? GROUPS_EVERY_MS : QUIET_EVERY_MS)) {
        wanted.list = false;
        listedMs = now;
        await readGroups();
        drawList();
      }
      if (now - gatewayMs >= GROUP_EVERY_MS - SLACK_MS) {
        gatewayMs = now;
        drawGateway(await read("api/gateway"));
      }
      if (opened !== null && (page === null || now - readMs >= GROUP_EVERY_MS - SLACK_MS)) {
        readMs = now;
        const group = opened;
        const found = await read(`api/group?group_id=${about(group)}`);
        if (group === opened) {
          const isFirst = page === null;
          page = found;
          drawGroup();
          if (isFirst) drawStory();
        }
      }
    } while (isAgain && opened !== null && page === null);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) write($("stands"), error.message);
    else if (error instanceof Refused) show("bad", error.status === 401 ? "needs a token" : error.message);
    else if (!isStale()) show("warn", "waiting for an answer");
  } finally {
    isReading = false;
    drawAge();
  }
}

function drawGateway(gateway) {
  const broker = gateway.brokers.length === 1 ? "1 broker" : `${gateway.brokers.length} brokers`;
  write($("gateway"), `${gateway.version} · ${gateway.bootstrap} · ${broker} · ${gateway.connections} connections`);
  const unlisted = gateway.fleet.filter((one) => one.shards.length > 0 && one.trouble);
  $("unlisted").hidden = unlisted.length === 0;
  write($("unlisted"), unlisted.map((one) =>
    `Groups of gateway ${one.name} at ${one.address} are missing or old: ${one.trouble}.`).join(" "));
  if (!gateway.readiness.is_ready) show("bad", `not ready: ${gateway.readiness.reasons.join("; ")}`);
  else if (!$("live").classList.contains("good")) show("good", "live");
}

function drawAge() {  // what is on the page is old: it must not look like the present
  document.body.classList.toggle("stale", isStale());
  if (isStale()) show("bad", `no answer for ${Math.floor((performance.now() - unansweredMs) / 1000)} s`);
}

function show(look, text) {
  $("live").className = `badge ${look}`;
  write($("live"), text);
}

async function follow() {
  let last = "";
  for (;;) {
    try {
      const answer = await ask(`api/events${last ? `?after=${about(last)}` : ""}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      show("good", "live");
      wanted.list = wanted.group = true;
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) last = take(part) || last;
      }
    } catch (error) {
      if (!(error instanceof Refused || error instanceof TypeError)) console.error(error);
    }
    if (!$("login").hidden) show("warn", "needs a token");
    else if (!isStale()) show("warn", "connecting again");
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

function take(part) {
  const fields = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
  wanted.list = wanted.group = true;
  if (fields.event === undefined) {
    const told = JSON.parse(fields.data);
    if (opened !== null && told.group_id === opened && told.event !== "offsets_committed") {
      const position = Number(fields.id.split("-")[1]);
      if (!story.some((each) => each.position === position)) {
        story.push({ position, ...told });
        if (story.length > 2 * STORY_MAX) story.splice(0, STORY_MAX);
        drawStory();
      }
    }
  } else if (fields.event === "gap" && opened !== null) loadStory();
  return fields.id;
}

$("find").addEventListener("input", choose);
$("show").addEventListener("change", choose);
$("groups").tHead.addEventListener("click", (event) => {
  const name = event.target.closest("th")?.dataset.sort;
  if (name) { sortedBy = name; choose(); }
});
$("story-find").addEventListener("input", drawStory);
$("story-details").addEventListener("change", drawStory);
for (const form of document.querySelectorAll("form.filters")) form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || $("dialog").open) return;
  if (event.key === "d" && opened !== null) { $("story-details").checked = !$("story-details").checked; drawStory(); }
  if (event.key === "/") { event.preventDefault(); (opened === null ? $("find") : $("story-find")).focus(); }
  if (event.key === "s" && opened === null && client === null) {
    const names = Object.keys(SORTS);
    sortedBy = names[(names.indexOf(sortedBy) + 1) % names.length];
    choose();
  }
  if (event.key === "Escape" && (opened !== null || client !== null)) location.hash = new URL($("back").href).hash;
});
route();
follow();
setInterval(() => { if (!document.hidden) refresh(); }, GROUP_EVERY_MS);
setInterval(drawAge, AGE_EVERY_MS);
