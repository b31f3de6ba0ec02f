# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stats --format and --output, read by programs that are not ours.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

# fix_fail with names of codes, under a display name that needs quotes everywhere.
attach_named() {
	need_bpf
	cat >"$BATS_TEST_TMPDIR/n.json" <<-'END'
	{ "n_sym": {
	    "say \"a\\b\", c": { "symbol": "fix_fail", "ret": "fail_t" },
	    "fix_add": "fix_add", "fix_sleep_us": "fix_sleep_us" },
	  "types": { "fail_t": { "base": "int", "error": "nonzero", "codes": { "2": "failMemory" } } },
	  "lib": "LIB" }
	END
	sed -i "s|\"LIB\"|\"$LIB\"|" "$BATS_TEST_TMPDIR/n.json"
	fsn attach --config "$BATS_TEST_TMPDIR/n.json"
	capture "$FIX/call" --arg 0,2,2,9 fail 40
	capture "$FIX/call" add 123
	capture "$FIX/call" --arg 1500 sleep_us 7
}

@test "CSV: Python's csv module reads the numbers of the JSON document" {
	need_tool python3
	attach_named
	fsn stats n --json --sort name
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.json"
	fsn stats n --format csv --sort name
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.csv"
	capture python3 -c '
import csv, json, sys
functions = json.load(open(sys.argv[1]))["groups"][0]["functions"]
raw = open(sys.argv[2], newline="").read()
assert raw.count("\r\n") == raw.count("\n") == 4, raw
rows = list(csv.DictReader(raw.splitlines(), strict=True))
assert len(rows) == len(functions) == 3
for row, f in zip(rows, functions):
    assert row["function"] == f["name"] and row["group"] == "n", row
    rate = float(row["calls_per_s"])  # time goes on between the two readings
    assert 0 < rate <= f["calls_per_s"] and rate > f["calls_per_s"] / 1000, (rate, f)
    for key in row:
        if key in f and key != "calls_per_s":
            want = "" if f[key] is None else str(f[key])
            assert row[key] == want, (key, row[key], want)
print([r["function"] for r in rows])' "$BATS_TEST_TMPDIR/a.json" "$BATS_TEST_TMPDIR/a.csv"
	assert_output "['fix_add', 'fix_sleep_us', 'say \"a\\\\b\", c']"
	fsn stats n --format csv --errors
	assert_output_match '^20..-.*Z,n,"say ""a\\b"", c",.*,20,2,failMemory.$'
	fsn stats n --format csv --hist
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, '/fix_add/ { n += $NF } END { print n }')" 123
	fsn detach n
}

@test "CSV: text that a spreadsheet would run as a formula is quoted, numbers are not" {
	need_bpf
	cat >"$BATS_TEST_TMPDIR/n.json" <<-END
	{ "n_sym": {
	    "=cmd|' /C calc'!A1": { "symbol": "fix_fail", "ret": "int" },
	    "@sum": "fix_add", "+1+1": "fix_nested", "-2+3": "fix_sleep_us" },
	  "lib": "$LIB" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/n.json" --slow 0ns
	capture "$FIX/call" --comm "=1+1" --arg -5 fail 1
	fsn stats n --format csv --all --sort name
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, 'NR > 1 { print $3 }')" \
		"\"'+1+1\"
\"'-2+3\"
\"'=cmd|' /C calc'!A1\"
\"'@sum\""
	fsn stats n --format csv --by process
	assert_output_match ",\"'=1\\+1\","
	fsn stats n --format csv --slow
	assert_output_match ",\"'=1\\+1\",.*,-5,\"'=cmd"
	fsn stats n --json
	assert_json '.[0].functions[0].name' "=cmd|' /C calc'!A1"
	fsn detach n
}

@test "metrics: promtool accepts the Prometheus format without remarks" {
	need_tool promtool
	attach_named
	fsn stats n --format prometheus
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
	capture bash -c 'promtool check metrics <"$0"' "$BATS_TEST_TMPDIR/a.prom"
	assert_output ""
	assert_stderr ""
	# promtool reads 0.0.4 only.
	fsn stats n --format openmetrics
	assert_eq "${lines[-1]}" "# EOF"
	assert_output_line "# TYPE funcsnoop_calls counter"
	assert_output_line "# UNIT funcsnoop_duration_seconds seconds"
	fsn detach n
}

@test "metrics: cumulative buckets are exact sums of the histogram" {
	need_tool python3
	attach_named
	fsn stats n --json
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.json"
	fsn stats n --format prometheus
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
	capture python3 -c '
import json, re, sys
n = 0
text = open(sys.argv[2]).read()
for f in json.load(open(sys.argv[1]))["groups"][0]["functions"]:
    label = "function=\"" + f["name"].replace("\\", "\\\\").replace("\"", "\\\"") + "\","
    lines = [l for l in text.splitlines() if label in l]
    les = [(re.search(r"le=\"([^\"]*)\"", l).group(1), int(l.split()[-1]))
           for l in lines if "_bucket{" in l]
    assert les[-1] == ("+Inf", f["returns"]), (les[-1], f["returns"])
    for le, count in les[:-1]:
        ns = round(float(le) * 1e9)
        want = sum(b["count"] for b in f["histogram"] if b["lt_ns"] <= ns)
        inside = [b for b in f["histogram"] if b["ge_ns"] < ns < b["lt_ns"]]
        assert not inside and count == want, (le, count, want)
        n += 1
    value = lambda name: [float(l.split()[-1]) for l in lines if l.startswith(name + "{")]
    assert value("funcsnoop_duration_seconds_count") == [f["returns"]]
    assert abs(value("funcsnoop_duration_seconds_sum")[0] * 1e9 - f["total_ns"]) < 1
    assert value("funcsnoop_calls_total") == [f["calls"]]
    assert sum(value("funcsnoop_errors_total")) == f["errors"]
    assert value("funcsnoop_untimed_total") == [f["untimed"]]
    assert abs(value("funcsnoop_self_seconds")[0] * 1e9 - f["self_ns"]) < 1
    assert f["cost_ns"] > 0
    assert abs(value("funcsnoop_cost_seconds_total")[0] * 1e9 - f["cost_ns"]) < 1
print(n)' "$BATS_TEST_TMPDIR/a.json" "$BATS_TEST_TMPDIR/a.prom"
	assert_output 75
	assert_eq "$(grep -c '^funcsnoop_errors_total{.*code="failMemory"} 20$' "$BATS_TEST_TMPDIR/a.prom")" 1
	assert_eq "$(grep -c '^funcsnoop_errors_total{.*code="9"} 10$' "$BATS_TEST_TMPDIR/a.prom")" 1
	fsn detach n
}

@test "metrics: two groups in one exposition keep each metric together" {
	need_tool promtool
	need_bpf
	fsn attach a fix_add --lib "$LIB"
	fsn attach b fix_add fix_ret --count --lib "$LIB"
	capture "$FIX/call" add 5
	fsn stats --format prometheus --all
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
	capture bash -c 'promtool check metrics <"$0"' "$BATS_TEST_TMPDIR/a.prom"
	assert_eq "$(grep -c '^funcsnoop_calls_total{group="[ab]",function="fix_add".*} 5$' \
		"$BATS_TEST_TMPDIR/a.prom")" 2
	# Counted functions have no other metrics.
	assert_eq "$(sed -nE 's/^(funcsnoop_[a-z_]+)\{group="b",function=.*/\1/p' "$BATS_TEST_TMPDIR/a.prom" |
		sort | uniq -c | awk '{ print $1, $2 }')" "2 funcsnoop_calls_total
1 funcsnoop_cost_seconds_total
1 funcsnoop_untimed_total"
	fsn detach a b
}

# --- files ---------------------------------------------------------------------------------

@test "stats: --output writes a complete file, mode 0644, and nothing else" {
	local dir=$BATS_TEST_TMPDIR/out

	attach_named
	mkdir "$dir"
	echo old >"$dir/a.prom"
	chmod 600 "$dir/a.prom"
	fsn stats n --format prometheus --output "$dir/a.prom"
	assert_output ""
	assert_eq "$(ls -A "$dir")" a.prom
	assert_eq "$(stat -c %a "$dir/a.prom")" 644
	assert_eq "$(grep -c '^funcsnoop_calls_total' "$dir/a.prom")" 3
	fsn -s 1 stats n --output "$dir/none/a.prom"
	assert_stderr_match "cannot write '.*/none/a.prom': No such file or directory"
	fsn -s 1 stats n --output /dev/full
	assert_stderr "funcsnoop stats: cannot write '/dev/full': No space left on device"
	[[ -c /dev/full ]] || fail "a device was replaced"
	fsn detach n
}

@test "stats: files of --output and --save are private if they have arguments" {
	local dir=$BATS_TEST_TMPDIR mask format

	attach_named
	fsn set n --slow 0ns
	capture "$FIX/call" --arg 2 fail 1
	for mask in 000 022 077; do
		umask "$mask"
		for format in table json csv; do
			fsn stats n --slow --format "$format" --output "$dir/a" --save "$dir/b"
			assert_eq "$(stat -c %a "$dir/a" "$dir/b")" $'600\n600' "$mask $format"
			fsn stats n --format "$format" --output "$dir/a" --save "$dir/b"
			assert_eq "$(stat -c %a "$dir/a" "$dir/b")" $'644\n644' "$mask $format"
		done
	done
	fsn stats n --slow --json --output "$dir/a" --save "$dir/b"
	assert_eq "$(jq -c '.[0].slow_calls[0].args | length' "$dir/a" "$dir/b" | sort -u | wc -l)" 1
	fsn stats n --json --save "$dir/b"
	assert_eq "$(jq -c '.[0].slow_calls // "none"' "$dir/b")" '"none"'
	umask 022
	fsn detach n
}

@test "stats: fails in every format if standard output is full, and resets nothing" {
	local format

	need_bpf
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/call" add 10
	for format in table json csv prometheus openmetrics; do
		capture -s 1 bash -c '"$0" stats --format "$1" >/dev/full' "$FUNCSNOOP" $format
		assert_stderr_match 'No space left on device'
	done
	for format in table json csv; do
		capture -s 1 bash -c '"$0" stats --reset --format "$1" >/dev/full' "$FUNCSNOOP" $format
		fsn -s 1 stats --reset --format $format --output /dev/full
		fsn -s 1 stats --reset --format $format --save /nowhere/x
	done
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn stats g --reset --format csv --output "$BATS_TEST_TMPDIR/a.csv"
	assert_eq "$(awk -F, 'NR == 2 { print $5 }' "$BATS_TEST_TMPDIR/a.csv")" 10
	assert_numbers g ""
	fsn detach g
}

# --- few series -----------------------------------------------------------------------------

# Two files of one soname, as of two environments; what is called through each is known.
@test "metrics: files with one soname are one library, unless a path separates them" {
	local dir=$BATS_TEST_TMPDIR name

	need_tool promtool
	need_bpf
	for name in a b; do
		mkdir "$dir/$name"
		cp "$FIX/libfix.so" "$dir/$name/libfix.so.1"
	done
	fsn attach g fix_add fix_fail fix_ret --lib "$dir/a/libfix.so.1" --lib "$dir/b/libfix.so.1"
	capture env LD_LIBRARY_PATH="$dir/a" "$FIX/call" add 3
	capture env LD_LIBRARY_PATH="$dir/b" "$FIX/call" add 4
	fsn stats g --json
	assert_json '[.[].functions[] | select(.name == "fix_add").calls] | sort' '[3,4]'
	fsn stats g --format prometheus
	cp "$BATS_TEST_TMPDIR/.out" "$dir/a.prom"
	assert_eq "$(grep ^funcsnoop_calls_total <<<"$output")" \
		'funcsnoop_calls_total{group="g",function="fix_add",library="libfix.so.1"} 7'
	assert_output_match '^funcsnoop_duration_seconds_bucket\{.*,le="\+Inf"\} 7$'
	assert_output_match '^funcsnoop_duration_seconds_count\{.*\} 7$'
	assert_eq "$(grep -c 'fix_fail' <<<"$output")" 0
	fsn stats g --format prometheus --all
	assert_eq "$(grep 'fix_fail\|fix_ret' <<<"$output")" \
		'funcsnoop_calls_total{group="g",function="fix_fail",library="libfix.so.1"} 0
funcsnoop_calls_total{group="g",function="fix_ret",library="libfix.so.1"} 0'
	capture bash -c 'promtool check metrics <"$0"' "$dir/a.prom"
	assert_output ""
	fsn stats g --format prometheus --library-label path
	assert_eq "$(grep '^funcsnoop_calls_total.*fix_add' <<<"$output" | sed 's/.*library=//')" \
		"\"$dir/a/libfix.so.1\"} 3
\"$dir/b/libfix.so.1\"} 4"
	fsn detach g
}

@test "metrics: --buckets sets the number of bounds of a histogram" {
	local n

	need_tool promtool
	attach_named
	for n in 25 13 7 2 1; do
		fsn stats n --format prometheus --buckets $n
		cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
		assert_eq "$(grep -c '^funcsnoop_duration_seconds_bucket{.*"fix_add"' <<<"$output")" \
			$((n + 1)) "buckets"
		assert_output_match '^funcsnoop_duration_seconds_bucket\{.*"fix_add".*,le="17.179869184"\} 123$'
		capture bash -c 'promtool check metrics <"$0"' "$BATS_TEST_TMPDIR/a.prom"
		assert_output ""
	done
	fsn stats n --format prometheus --buckets 3
	assert_eq "$(sed -nE 's/^funcsnoop_duration_seconds_bucket\{.*"fix_add".*le="(.*)"\}.*/\1/p' \
		<<<"$output")" "0.000001024
0.004194304
17.179869184
+Inf"
	fsn stats n --format prometheus --buckets none
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
	refute_output_match '_bucket'
	assert_output_line "# TYPE funcsnoop_duration_seconds summary"
	assert_output_match '^funcsnoop_duration_seconds_count\{.*"fix_add".*\} 123$'
	capture bash -c 'promtool check metrics <"$0"' "$BATS_TEST_TMPDIR/a.prom"
	assert_output ""
	for n in 0 26 x -1; do
		fsn -s 2 stats n --format prometheus --buckets "$n"
	done
	fsn -s 2 stats n --buckets 3
	fsn -s 2 stats n --library-label path
	fsn detach n
}

@test "metrics: --by process has at most N series, and one for all other processes" {
	local i

	need_tool promtool
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	for i in 1 2 3 4; do
		capture "$FIX/call" --comm "p$i" add $i
	done
	fsn stats g --format prometheus --by process
	assert_eq "$(sed -nE 's/^funcsnoop_calls_total\{.*,pid="(others|[0-9]+)"(,comm="(.*)")?\} (.*)/\3 \4/p' \
		<<<"$output")" " 0
p1 1
p2 2
p3 3
p4 4"
	start_bg runs "$FIX/call" --comm p5 --wait-end add 5
	wait_line runs '^result '
	fsn stats g --format prometheus --by process
	assert_eq "$(sed -nE 's/^funcsnoop_process_ended\{.*,comm="(.*)"\} (.*)/\1 \2/p' <<<"$output")" "p1 1
p2 1
p3 1
p4 1"
	tell runs
	wait_bg runs
	fsn stats g --format prometheus --by process --top 2
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/a.prom"
	assert_eq "$(sed -nE 's/^funcsnoop_calls_total\{.*,pid="(others|[0-9]+)"(,comm="(.*)")?\} (.*)/\3 \4/p' \
		<<<"$output")" " 12
p1 1
p2 2"
	capture bash -c 'promtool check metrics <"$0"' "$BATS_TEST_TMPDIR/a.prom"
	assert_output ""
	fsn detach g
}

@test "metrics: include health, stale libraries and the number of groups" {
	local dir=$BATS_TEST_TMPDIR

	need_bpf
	cp "$LIB" "$dir/libown.so"
	fsn attach g fix_add --lib "$dir/libown.so"
	fsn stats --format prometheus
	assert_output_line 'funcsnoop_health_total{group="g",reason="no_slot"} 0'
	assert_output_line 'funcsnoop_health_total{group="g",reason="unmatched_returns"} 0'
	assert_output_line 'funcsnoop_health_total{group="g",reason="lost_codes"} 0'
	assert_output_line 'funcsnoop_stale_libraries{group="g"} 0'
	assert_output_line 'funcsnoop_groups{state="shown"} 1'
	assert_output_line 'funcsnoop_groups{state="failed"} 0'
	# All reasons are keys of the document.
	fsn stats --format prometheus
	sed -nE 's/^funcsnoop_health_total.*reason="(.*)".*/\1/p' <<<"$output" | sort >"$dir/reasons"
	fsn stats --json
	assert_eq "$(json -r '.[0].health | to_entries[] | select(.value | type == "number").key' |
		sort | comm -13 - "$dir/reasons")" ""
	cp "$LIB" "$dir/new.so"
	mv "$dir/new.so" "$dir/libown.so"
	fsn stats --format prometheus
	assert_output_line 'funcsnoop_stale_libraries{group="g"} 1'
	fsn detach g
}

# --- the rules that ship --------------------------------------------------------------------

# Four minutes of possible data of two nodes, and the alerts of each.
@test "alerts: each fires for its condition, and for nothing else" {
	need_tool promtool
	cp "$BATS_TEST_DIRNAME/../man/examples/funcsnoop-rules.yml" "$BATS_TEST_TMPDIR/rules.yml"
	cat >"$BATS_TEST_TMPDIR/test.yml" <<-'END'
	rule_files: [ rules.yml ]
	evaluation_interval: 15s
	tests:
	  - interval: 15s
	    input_series:
	      # All is well on a; b hangs in one, and is behind in the other.
	      - { series: 'funcsnoop_calls_total{instance="a",group="nccl",function="ncclAllReduce"}', values: '1+10x20' }
	      - { series: 'funcsnoop_calls_total{instance="b",group="nccl",function="ncclAllReduce"}', values: '1+10x6 61x14' }
	      - { series: 'funcsnoop_calls_total{instance="c",group="nccl",function="ncclAllReduce"}', values: '0x20' }
	      - { series: 'funcsnoop_in_flight{instance="a",group="nccl",function="ncclAllReduce"}', values: '1x20' }
	      - { series: 'funcsnoop_returns_total{instance="a",group="nccl",function="ncclAllReduce"}', values: '0+10x20' }
	      - { series: 'funcsnoop_in_flight{instance="b",group="nccl",function="ncclAllReduce"}', values: '0x6 1x14' }
	      - { series: 'funcsnoop_returns_total{instance="b",group="nccl",function="ncclAllReduce"}', values: '1+10x6 61x14' }
	      - { series: 'funcsnoop_errors_total{instance="a",group="cuda",function="cudaMalloc",code="cudaErrorMemoryAllocation"}', values: '0x10 2x10' }
	      - { series: 'funcsnoop_errors_total{instance="b",group="cuda",function="cudaMalloc",code="cudaErrorMemoryAllocation"}', values: '5x20' }
	      # The first error of all has no growth: on c, of whose calls something is known before.
	      - { series: 'funcsnoop_errors_total{instance="c",group="cuda",function="cudaMalloc",code="cudaErrorMemoryAllocation"}', values: '_x10 1x10' }
	      - { series: 'funcsnoop_errors_total{instance="d",group="cuda",function="cudaMalloc",code="cudaErrorMemoryAllocation"}', values: '_x10 1x10' }
	      - { series: 'funcsnoop_calls_total{instance="c",group="cuda",function="cudaMalloc"}', values: '0x20' }
	      - { series: 'funcsnoop_calls_total{instance="d",group="cuda",function="cudaMalloc"}', values: '_x10 1x10' }
	      - { series: 'funcsnoop_health_total{instance="a",group="cuda",reason="no_slot"}', values: '0x10 1x10' }
	      - { series: 'funcsnoop_health_total{instance="a",group="cuda",reason="inner"}', values: '0+5x20' }
	    alert_rule_test:
	      - { eval_time: 1m30s, alertname: FuncsnoopHang }
	      - { eval_time: 1m30s, alertname: FuncsnoopStraggler }
	      - eval_time: 3m
	        alertname: FuncsnoopHang
	        exp_alerts:
	          - exp_labels: { severity: critical, instance: b, group: nccl, function: ncclAllReduce }
	            exp_annotations:
	              summary: "ncclAllReduce has not come back for a minute on b"
	              description: "1 in flight; on the node: funcsnoop list inflight nccl --stack"
	      - { eval_time: 3m15s, alertname: FuncsnoopStraggler }
	      - eval_time: 3m45s
	        alertname: FuncsnoopStraggler
	        exp_alerts:
	          - exp_labels: { severity: critical, instance: b, group: nccl, function: ncclAllReduce }
	            exp_annotations: { summary: "b makes no call of ncclAllReduce while others do" }
	      - eval_time: 3m
	        alertname: FuncsnoopErrors
	        exp_alerts:
	          - exp_labels: { severity: warning, instance: a, group: cuda, function: cudaMalloc, code: cudaErrorMemoryAllocation }
	            exp_annotations: { summary: "cudaMalloc fails with cudaErrorMemoryAllocation on a" }
	          - exp_labels: { severity: warning, instance: c, group: cuda, function: cudaMalloc, code: cudaErrorMemoryAllocation }
	            exp_annotations: { summary: "cudaMalloc fails with cudaErrorMemoryAllocation on c" }
	      - eval_time: 3m
	        alertname: FuncsnoopDoubtful
	        exp_alerts:
	          - exp_labels: { severity: info, instance: a, group: cuda, reason: no_slot }
	            exp_annotations: { summary: "numbers of cuda are not whole on a: no_slot" }
	  - interval: 30s
	    input_series:
	      # Scraped at half the pace.
	      - { series: 'funcsnoop_calls_total{instance="a",group="nccl",function="f"}', values: '1+10x10' }
	      - { series: 'funcsnoop_calls_total{instance="b",group="nccl",function="f"}', values: '1+10x3 31x7' }
	    alert_rule_test:
	      - eval_time: 4m10s
	        alertname: FuncsnoopStraggler
	        exp_alerts:
	          - exp_labels: { severity: critical, instance: b, group: nccl, function: f }
	            exp_annotations: { summary: "b makes no call of f while others do" }
	  - interval: 1m
	    input_series:
	      # Of 100 calls a minute all take up to 2 ms; from the 70th minute on a tenth takes up to 4.
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="a",group="g",function="f",le="0.001"}', values: '0x120' }
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="a",group="g",function="f",le="0.002"}', values: '0+100x70 7090+90x50' }
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="a",group="g",function="f",le="0.004"}', values: '0+100x120' }
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="a",group="g",function="f",le="+Inf"}', values: '0+100x120' }
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="b",group="g",function="f",le="0.002"}', values: '0+100x120' }
	      - { series: 'funcsnoop_duration_seconds_bucket{instance="b",group="g",function="f",le="+Inf"}', values: '0+100x120' }
	      - { series: 'funcsnoop_stale_libraries{instance="b",group="g"}', values: '0x100 1x20' }
	    alert_rule_test:
	      - { eval_time: 69m, alertname: FuncsnoopSlower }
	      - eval_time: 90m
	        alertname: FuncsnoopSlower
	        exp_alerts:
	          - exp_labels: { severity: warning, instance: a, group: g, function: f }
	            exp_annotations: { summary: "f is slower by half than an hour ago on a" }
	      - { eval_time: 99m, alertname: FuncsnoopStale }
	      - eval_time: 110m
	        alertname: FuncsnoopStale
	        exp_alerts:
	          - exp_labels: { severity: warning, instance: b, group: g }
	            exp_annotations: { summary: "a library of g was replaced on b: attach again" }
	END
	capture promtool check rules "$BATS_TEST_TMPDIR/rules.yml"
	assert_output_match 'SUCCESS: 11 rules found'
	capture promtool test rules "$BATS_TEST_TMPDIR/test.yml"
}

# Of 16 ranks on two nodes number 3 of a hangs, and 5 of a has ended; then the same by cgroup.
@test "nccl: the stalled rank of a node is reported, an exited one is not" {
	local test=$BATS_TEST_TMPDIR/test.yml of='group="nccl",function="ncclAllReduce",library="libnccl.so.2"'
	local node pid values

	need_tool promtool
	cp "$BATS_TEST_DIRNAME/../man/examples/funcsnoop-rules.yml" "$BATS_TEST_TMPDIR/rules.yml"
	{
		printf 'rule_files: [ rules.yml ]\nevaluation_interval: 15s\ntests:\n'
		printf -- '  - interval: 15s\n    input_series:\n'
		for node in a b; do
			echo "      - { series: 'funcsnoop_calls_total{instance=\"$node\",$of,pid=\"others\"}', values: '9x20' }"
			for pid in 1 2 3 4 5 6 7 8; do
				values=1+10x20
				[[ $node$pid != a[35] ]] || values='1+10x6 61x14'
				echo "      - { series: 'funcsnoop_calls_total{instance=\"$node\",$of,pid=\"$pid\",comm=\"rank\"}', values: '$values' }"
			done
		done
		echo "      - { series: 'funcsnoop_process_ended{instance=\"a\",$of,pid=\"5\",comm=\"rank\"}', values: '_x7 1x13' }"
		cat <<-'END'
		    alert_rule_test:
		      - { eval_time: 3m15s, alertname: FuncsnoopStraggler }
		      - eval_time: 3m30s
		        alertname: FuncsnoopStraggler
		        exp_alerts:
		          - exp_labels: { severity: critical, instance: a, pid: "3", group: nccl, function: ncclAllReduce }
		            exp_annotations: { summary: "process 3 on a makes no call of ncclAllReduce while others do" }
		  - interval: 15s
		    input_series:
		END
		for pid in 1 2 3; do
			values=1+10x20
			[[ $pid != 2 ]] || values='1+10x6 61x14'
			echo "      - { series: 'funcsnoop_calls_total{instance=\"a\",$of,cgroup=\"/pod$pid\",pod_uid=\"u$pid\"}', values: '$values' }"
		done
		# A node with bursts of calls between the samples of full minutes.
		echo "      - { series: 'funcsnoop_calls_total{instance=\"a\",$of,cgroup=\"/pod4\",pod_uid=\"u4\"}', values: '1x3 2x4 3x4 4x4 5x4' }"
		cat <<-'END'
		    alert_rule_test:
		      - eval_time: 3m30s
		        alertname: FuncsnoopStraggler
		        exp_alerts:
		          - exp_labels: { severity: critical, instance: a, cgroup: /pod2, pod_uid: u2, group: nccl, function: ncclAllReduce }
		            exp_annotations: { summary: "pod u2 on a makes no call of ncclAllReduce while others do" }
		      - eval_time: 4m15s
		        alertname: FuncsnoopStraggler
		        exp_alerts:
		          - exp_labels: { severity: critical, instance: a, cgroup: /pod2, pod_uid: u2, group: nccl, function: ncclAllReduce }
		            exp_annotations: { summary: "pod u2 on a makes no call of ncclAllReduce while others do" }
		END
	} >"$test"
	capture promtool test rules "$test"
}

# --- the real ones ------------------------------------------------------------------------

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

get() { # URL
	python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())' "$1" 2>/dev/null
}

query() { # PORT PROMQL
	get "http://127.0.0.1:$1/api/v1/query?query=$(jq -rn --arg q "$2" '$q | @uri')" |
		jq -r '.data.result[0].value[1] // empty'
}

query_is() {
	[[ $(query "$1" "$2") == "$3" ]]
}

@test "metrics: node_exporter and Prometheus show the right numbers" {
	local dir=$BATS_TEST_TMPDIR/prom node web

	need_tool prometheus prometheus-node-exporter python3 jq
	attach_named
	mkdir -p "$dir/text" "$dir/data"
	fsn stats n --format prometheus --output "$dir/text/funcsnoop.prom"
	node=$(free_port)
	start_bg node prometheus-node-exporter --web.listen-address="127.0.0.1:$node" \
		--collector.disable-defaults --collector.textfile \
		--collector.textfile.directory="$dir/text"
	web=$(free_port)
	cat >"$dir/p.yml" <<-END
	global: { scrape_interval: 1s }
	scrape_configs:
	  - job_name: n
	    static_configs: [ { targets: [ "127.0.0.1:$node" ] } ]
	END
	start_bg prometheus prometheus --config.file="$dir/p.yml" --storage.tsdb.path="$dir/data" \
		--web.listen-address="127.0.0.1:$web" --log.level=error
	poll_until -t 30 query_is "$web" 'funcsnoop_calls_total{function="fix_add"}' 123
	assert_eq "$(query "$web" 'node_textfile_scrape_error')" 0
	assert_eq "$(query "$web" 'sum(funcsnoop_errors_total{code="failMemory"})')" 20
	assert_eq "$(query "$web" 'funcsnoop_duration_seconds_count{function="fix_sleep_us"}')" 7
	# 7 calls of 1.5 ms and more: the bucket from 1.05 to 2.1 ms, where no load delays them.
	assert_eq "$(query "$web" 'histogram_quantile(0.01, funcsnoop_duration_seconds_bucket{function="fix_sleep_us"}) > bool 0.001')" 1
	capture "$FIX/call" add 77
	fsn stats n --format prometheus --output "$dir/text/funcsnoop.prom"
	poll_until -t 30 query_is "$web" 'funcsnoop_calls_total{function="fix_add"}' 200
	stop_bg prometheus
	stop_bg node
	fsn detach n
}

@test "metrics: Prometheus reads the OpenMetrics format over HTTP" {
	local dir=$BATS_TEST_TMPDIR/prom port web

	need_tool prometheus python3 jq
	attach_named
	mkdir -p "$dir/data"
	fsn stats n --format openmetrics --output "$dir/metrics"
	port=$(free_port)
	start_bg web python3 -c '
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.end_headers()
        self.wfile.write(open(sys.argv[2], "rb").read())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()' "$port" "$dir/metrics"
	web=$(free_port)
	cat >"$dir/p.yml" <<-END
	global: { scrape_interval: 1s }
	scrape_configs:
	  - job_name: n
	    static_configs: [ { targets: [ "127.0.0.1:$port" ] } ]
	END
	start_bg prometheus prometheus --config.file="$dir/p.yml" --storage.tsdb.path="$dir/data" \
		--web.listen-address="127.0.0.1:$web" --log.level=error
	poll_until -t 30 query_is "$web" 'funcsnoop_calls_total{function="fix_add"}' 123
	assert_eq "$(query "$web" 'up')" 1
	assert_eq "$(query "$web" 'funcsnoop_calls_total{function="say \"a\\b\", c"}')" 40
	stop_bg prometheus
	stop_bg web
	fsn detach n
}
