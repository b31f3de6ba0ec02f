#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# The page of stats --format flame in a browser: views, table, processes, idle stacks.

# shellcheck disable=SC2016,SC2154

load helpers
load browser

STACKS=$FIX/stacks
PAGE=$BATS_TEST_DIRNAME/../cmd/show/flame.html

# A page of DATA, as the command makes one.
page_of() { # DATA
	awk -v data="$(tr '\n' ' ' <<<"$1")" '{ sub(/@DATA@/, data) } 1' "$PAGE" >"$BATS_TEST_TMPDIR/page.html"
}

# Two processes; a recursion; a thread that sleeps in poll. Nodes are [name, samples, ns, children].
two='{ title: "two", about: "host, now, 1.0 s: funcsnoop attach cpu", chosen: 0, processes: true, python: [],
	names: ["all", "a (1)", "b (2)", "main", "work", "again", "poll", "leaf"],
	figures: [{ name: "samples", unit: "count" }, { name: "time", unit: "ns" }],
	root: [0, 100, 1000, [
		[1, 70, 700, [[3, 70, 700, [[4, 30, 300, [[7, 20, 200, []]]], [6, 40, 400, []]]]]],
		[2, 30, 300, [[3, 30, 300, [[5, 30, 300, [[5, 20, 200, [[7, 5, 50, []]]]]]]]]]]] }'

@test "flame graph: callers view has each function with its own samples and its callers" {
	page_of "$two"
	in_browser "$BATS_TEST_TMPDIR/page.html" '
		const tree = (n) => [name(n), now(n.raw), kids(n).map(tree)];
		said.callees = tree(root);
		part("views").children[1].click();
		said.callers = tree(root);
		part("views").children[0].click();
		said.again = JSON.stringify(tree(root)) === JSON.stringify(said.callees);'
	assert_json .errors '[]'
	assert_json .callees '["all",100,[["main",100,[["poll",40,[]],["work",30,[["leaf",20,[]]]],["again",30,[["again",20,[["leaf",5,[]]]]]]]]]]'
	assert_json .callers '["all",100,[["poll",40,[["main",40,[]]]],["leaf",25,[["work",20,[["main",20,[]]]],["again",5,[["again",5,[["main",5,[]]]]]]]],["again",25,[["again",15,[["main",15,[]]]],["main",10,[]]]],["work",10,[["main",10,[]]]]]]'
	assert_json .again true
}

@test "flame graph: processes are a level, and idle stacks can be hidden" {
	page_of "$two"
	in_browser "$BATS_TEST_TMPDIR/page.html" '
		const press_switch = (text) => [...part("switches").children].find((b) => b.textContent === text).click();
		const level = () => kids(root).map((n) => [name(n), now(n.raw)]);
		said.merged = level();
		press_switch("by process"); said.processes = level();
		press_switch("idle"); said.busy = level(); said.title = part("title").textContent;
		said.few = part("about").textContent;
		press_switch("by process"); said.both = level();
		press_switch("table"); said.side = getComputedStyle(part("side")).display;'
	assert_json '[.errors, .merged, .processes, .busy, .both]' \
		'[[],[["main",100]],[["a (1)",70],["b (2)",30]],[["a (1)",30],["b (2)",30]],[["main",60]]]'
	assert_json '[.title, .side]' '["two: 60 samples","none"]'
	assert_json .few 'host, now, 1.0 s: funcsnoop attach cpu; only 60 samples: shares are within 13 percentage points (95 %)'
}

@test "flame graph: the table has self and total of each function, and marks the chosen one" {
	page_of "$two"
	in_browser "$BATS_TEST_TMPDIR/page.html" '
		const rows = () => [...part("rows").children].map((tr) => [...tr.children].map((td) => td.textContent));
		said.self = rows();
		document.querySelectorAll("th")[1].click(); said.total = rows().map((r) => r[2]);
		[...part("rows").children].find((tr) => tr.lastChild.textContent === "leaf").click();
		said.found = part("found").textContent;
		said.marked = [...document.querySelectorAll("tr.on")].map((tr) => tr.lastChild.textContent);
		said.pink = is_found(named("leaf")); said.plain = is_found(named("work"));
		part("figures").children[1].click(); said.ns = rows()[0];'
	assert_json '[.errors, .self]' '[[],[["40.0 %","40.0 %","poll"],["25.0 %","30.0 %","again"],["25.0 %","25.0 %","leaf"],["10.0 %","30.0 %","work"],["0.0 %","100.0 %","main"]]]'
	assert_json '.total | [.[0], .[1]]' '["main","poll"]'
	assert_json '[.found, .marked, .pink, .plain]' '["25.0 % in 1 names",["leaf"],true,false]'
	assert_json .ns '["0.0 %","100.0 %","main"]'
}

@test "flame graph: two processes of a group are two levels, and the page says where and when" {
	need_bpf
	local page=$BATS_TEST_TMPDIR/st.html
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain
	capture "$STACKS" plain
	fsn stats st --format flame --output "$page"
	output=$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")
	assert_json '.processes' true
	assert_json '. as $d | [.root[-1][] | [($d.names[.[0]] | sub("[(][0-9]+[)]"; "(PID)")), .[1]]]' '[["stacks (PID)",2],["stacks (PID)",1]]'
	assert_json '.about | test("^\\S+, [0-9-]+ [0-9:]+ UTC, [0-9.]+ s: .*funcsnoop attach st st_leaf ")' true
	fsn reset st
	capture "$STACKS" plain
	fsn stats st --format flame --output "$page"
	output=$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")
	assert_json '.processes' null
	fsn detach st
}
