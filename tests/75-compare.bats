# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop compare: who stands out among documents of several nodes. Needs no privilege.

load helpers

DIR=$BATS_TEST_TMPDIR

# A document of intervals or moments of NODE: SINCE FUNCTION CALLS AVG_NS [KEY SUM]
moment() { # NODE SINCE FUNCTION CALLS AVG_NS [KEY SUM]
	jq -cn --arg since "$2" --arg name "$3" --argjson calls "$4" --argjson avg "$5" \
		--arg key "${6-}" --argjson sum "${7-0}" '[{ group: "nccl", since: $since,
		functions: (if $calls == 0 then [] else [{ name: $name, library: "/x/libnccl.so.2",
			calls: $calls, returns: $calls, total_ns: ($calls * $avg), avg_ns: $avg,
			rows: (if $key == "" then [] else [{ pid: 1, calls: $calls, returns: $calls,
				key: { communicator: { value: $key, name: $key } },
				sums: { bytes: $sum } }] end) }] end) }]' >>"$DIR/$1.json"
}

found() { # the findings, a line each
	json '.findings[] | [.function, .key // "-", .node, .is, .value, .others] | map(tostring) | join(" ")'
}

@test "compare: a node without calls in two windows is stalled, in any kind of data" {
	local node i calls

	for node in a b c d; do
		for i in 1 2 3; do
			calls=10
			[[ $node != c || $i == 1 ]] || calls=0
			moment $node "t$i" ncclAllReduce $calls 5000
		done
	done
	fsn compare "$DIR"/?.json --json
	assert_json .windows 2
	assert_json .nodes '["a","b","c","d"]'
	assert_eq "$(found)" "ncclAllReduce - c behind 10 30"
	fsn compare "$DIR"/?.json
	assert_output "GROUP  FUNCTION       KEY  NODE  IS      VALUE  OTHERS
nccl   ncclAllReduce  -    c     behind     10      30"
	assert_stderr ""
	fsn -s 3 compare "$DIR"/?.json --fail-if behind
	fsn -s 3 compare "$DIR"/?.json --fail-if any
	fsn compare "$DIR"/?.json --fail-if slower --fail-if amount
	# The same of statistics that grow: 11, 21, 31 calls; c's stay at 11.
	rm -f "$DIR"/*.json
	for node in a b c d; do
		for i in 1 2 3; do
			calls=$((i * 10 + 1))
			[[ $node != c ]] || calls=11
			moment $node t0 ncclAllReduce $calls 5000
		done
	done
	fsn compare "$DIR"/?.json --json
	assert_eq "$(found)" "ncclAllReduce - c behind 11 31"
	# All of them idle: no rank is stalled.
	rm -f "$DIR"/*.json
	for node in a b c d; do
		for i in 1 2 3; do
			moment $node t0 ncclAllReduce 31 5000
		done
	done
	fsn compare "$DIR"/?.json --fail-if any
	assert_output ""
	assert_stderr "funcsnoop compare: 4 nodes are alike"
}

@test "compare: compares windows with the same start, not the same first call" {
	local i

	for i in 1 2 3 4 5; do
		moment a t$i f 10 5000
		((i == 1)) || moment b t$i f $((i == 5 ? 7 : 0)) 5000
		((i == 5)) || moment c t$i f 10 5000
	done
	# All have t2 to t4; b's calls in t5 are too late to be one of them.
	fsn compare "$DIR"/?.json --json
	assert_eq "$(found)" "f - b behind 0 40"
}

@test "compare: single readings show fewer calls and missing functions, and say so" {
	local node

	for node in a b c; do
		moment $node t0 ncclAllReduce $([[ $node == b ]] && echo 640 || echo 641) 5000
	done
	fsn compare "$DIR"/?.json --json
	assert_json .windows 0
	assert_eq "$(found)" "ncclAllReduce - b fewer 640 641"
	fsn compare "$DIR"/?.json
	assert_stderr "funcsnoop compare: nodes that are behind are not detected: that needs two intervals that all nodes have"
	moment x t0 ncclAllReduce 0 0
	fsn compare "$DIR"/{a,c,x}.json --json
	assert_eq "$(found)" "ncclAllReduce - x absent 0 641"
}

@test "compare: ranks of one communicator with different sizes are reported" {
	local i bytes

	for i in 0 1 2 3; do
		bytes=$((i == 2 ? 4096 : 8192))
		moment r$i t0 ncclAllReduce 10 5000 "fa93daea854b060b $i/4" $((bytes * 10))
	done
	fsn compare "$DIR"/r?.json --json
	assert_eq "$(found)" \
		"ncclAllReduce communicator=fa93daea854b060b r2 amount 4096 8192"
	fsn -s 3 compare "$DIR"/r?.json --fail-if amount
}

@test "compare: two nodes are compared with each other" {
	moment a t0 f 1000 5000
	moment b t0 f 51000 5000
	moment a t1 g 20 900
	fsn compare "$DIR"/[ab].json --json
	assert_eq "$(found)" "f - a fewer 1000 51000
g - b absent 0 20"
	fsn compare "$DIR"/[ab].json
	refute_stderr_match 'alike'
	rm -f "$DIR"/*.json
	moment a t0 f 100 5000
	moment b t0 f 100 6100
	fsn compare "$DIR"/[ab].json --json
	assert_eq "$(found)" "f - b slower 6100 5000"
	fsn -s 3 compare "$DIR/b.json" "$DIR/a.json" --fail-if slower
	rm -f "$DIR"/*.json
	moment a t0 f 100 5000
	moment b t0 f 100 5900
	fsn compare "$DIR"/[ab].json --fail-if any
	assert_output ""
	assert_stderr_match '2 nodes are alike'
}

@test "compare: one of two nodes is behind if it made no call in two windows" {
	local i

	for i in 1 2 3; do
		moment a t$i f 10 5000
		moment b t$i f $((i == 1 ? 10 : 0)) 5000
	done
	fsn compare "$DIR"/[ab].json --json
	assert_json .windows 2
	assert_eq "$(found)" "f - b behind 10 30"
}

# As 'stats --save' writes it: 400 ns, or 3 us where the entry is single-stepped, and 5 %.
@test "compare: a difference within the error of the times is not slower" {
	timed() { # NODE AVG_NS NOISE_NS
		moment "$1" t0 f 100 "$2"
		jq -c ".[0].functions[0].noise_ns = $3" "$DIR/$1.json" >"$DIR/$1.new"
		mv "$DIR/$1.new" "$DIR/$1.json"
	}
	timed a 0 400
	timed b 23 400
	fsn compare "$DIR"/[ab].json --json --fail-if any
	assert_eq "$(found)" ""
	timed c 0 400
	fsn compare "$DIR"/[abc].json --json --fail-if any
	assert_eq "$(found)" ""
	# 1000 is less than 2 * 400 and 5 % of 2000 and 3000, 1200 is more than 5 % of 5200.
	rm -f "$DIR"/*.json
	timed a 2000 400
	timed b 3000 400
	fsn compare "$DIR"/[ab].json --json
	assert_eq "$(found)" ""
	rm -f "$DIR"/*.json
	timed a 2000 400
	timed b 3200 400
	fsn compare "$DIR"/[ab].json --json
	assert_eq "$(found)" "f - b slower 3200 2000"
	# The larger error counts.
	rm -f "$DIR/a.json"
	timed a 2000 3000
	fsn compare "$DIR"/[ab].json --json
	assert_eq "$(found)" ""
}

@test "compare: slower is a value beyond the spread of the others" {
	local i times=(1000 1100 900 1050 1900) wide=(1000 1500 600 1300 1900)

	for i in 0 1 2 3 4; do
		moment n$i t0 f 100 "${times[i]}"
		moment w$i t0 f 100 "${wide[i]}"
	done
	fsn compare "$DIR"/n?.json --json
	assert_eq "$(found)" "f - n4 slower 1900 1050"
	fsn compare "$DIR"/n?.json
	assert_output_match 'n4 +slower +1\.90 us +1\.05 us$'
	fsn compare "$DIR"/w?.json --json
	assert_eq "$(found)" ""
}

@test "compare: invalid and incomparable documents are errors" {
	echo '[]' >"$DIR/e.json"
	echo '{' >"$DIR/bad.json"
	moment a t0 f 1 1
	fsn -s 2 compare "$DIR/a.json"
	assert_stderr_match '^funcsnoop compare: at least two nodes are required'
	fsn -s 1 compare "$DIR/a.json" "$DIR/bad.json"
	assert_stderr_match "bad.json' is not a document of 'funcsnoop stats --json'"
	fsn -s 1 compare "$DIR/a.json" /nowhere.json --json
	assert_json '.error | test("nowhere")' true
	fsn -s 2 compare "$DIR/a.json" "$DIR/a.json"
	assert_stderr_match "two files are of node 'a'"
	fsn compare "x=$DIR/a.json" "y=$DIR/a.json" "$DIR/e.json" --json
	assert_json .nodes '["x","y","e"]'
	fsn -s 2 compare "x=$DIR/a.json" "y=$DIR/a.json" --fail-if never
	assert_stderr_match "\-\-fail-if is any, behind, fewer, absent, amount or slower, not 'never'"
}

# c has another group, e has no data: neither is stalled or alike.
@test "compare: nodes without the group are named, in the table and in JSON" {
	local node i

	for node in a b c; do
		for i in 1 2 3; do
			moment $node t$i f 10 5000
		done
	done
	sed -i 's/"nccl"/"cuda"/' "$DIR/c.json"
	echo '[]' >"$DIR/e.json"
	fsn compare "$DIR"/{a,b,c}.json --fail-if any
	assert_output ""
	assert_stderr "funcsnoop compare: none of 3 nodes differs, as far as they were compared
funcsnoop compare: node 'c' has nothing of group 'nccl': not compared
funcsnoop compare: node 'a' has nothing of group 'cuda': not compared
funcsnoop compare: node 'b' has nothing of group 'cuda': not compared"
	fsn compare "$DIR"/{a,b,e}.json --json
	assert_json .findings '[]'
	assert_json .windows 2
	assert_json '.missing | tojson' '[{"node":"e","group":"nccl"}]'
	assert_stderr "funcsnoop compare: node 'e' has nothing of group 'nccl': not compared"
}

@test "compare: reads the files that stats writes" {
	need_bpf
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" add 3
	fsn stats g --json
	cp "$DIR/.out" "$DIR/one.json"
	fsn stats g --save "$DIR/two.json"
	fsn compare "$DIR/one.json" "$DIR/two.json" --fail-if any
	assert_output ""
	capture "$FIX/call" add 4
	fsn stats g --json --pretty
	cat "$DIR/.out" >>"$DIR/two.json"
	fsn compare "$DIR/one.json" "$DIR/two.json" --json
	assert_eq "$(found)" "fix_add - one fewer 3 7"
	assert_json .windows 0
	fsn detach g
}
