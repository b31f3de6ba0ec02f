# SPDX-License-Identifier: BSD-2-Clause
# A number that stats shows is described once: a figure that is added is everywhere. So is
# what can be probed: a kind of target that is added is found where FUNCTIONs are.
# bats file_tags=bpf

load helpers

ROOT=$BATS_TEST_DIRNAME/..

# In a copy of the source, which is built once for both tests, functions have a figure more, half of
# their time: where it is kept, where it is counted, and its row.
add_figure() { # COPY
	local copy=$1

	sed -i 's/^\tbool has_extremes;/\tuint64_t half_ns;\n&/' "$copy/lib/stats/stats.h"
	sed -i "s/^\tf->carried = .*/&\n\tf->half_ns = f->n.total_ns \/ 2;/" "$copy/lib/stats/stats.c"
	sed -i 's/^#define FIGURES(X) .*/&\n\tX(HALF, NS, "half", "HALF", "Half the time.", times, f->half_ns, \\\
		AT(DOCUMENT, 105), AT(TABLE, 75), AT(RATES, 25), AT(SORT, 16, 104), \\\
		AT(SAVED, 86), AT(DIFF, 15), AT(METRIC, 70)) \\/' "$copy/lib/stats/figures.h"
}

# A kind of target more, of which all can be named and nothing can be probed: its file, its number,
# its row.
add_kind() { # COPY
	local copy=$1

	sed -i 's/^\tTARGET_CNT$/\tTARGET_WISH,\n&/; s/^extern const struct target_kind target_user;/&\nextern const struct target_kind target_wish;/' \
		"$copy/lib/target/kind.h"
	sed -i 's/^\t\[TARGET_USER\] = .*/&\n\t[TARGET_WISH] = \&target_wish,/' "$copy/lib/target/kind.c"
	cat >"$copy/lib/target/wish.c" <<-'END'
	#include "target/kind.h"

	static const struct object somewhere = { .path = "[somewhere]", .build_id = "",
		.found_how = "wished" };

	static int wish_find(struct libfind *finder, const struct objects *objects,
		const struct request *const *reqs, size_t req_cnt, struct targets *targets,
		struct err *err)
	{
		for (size_t i = 0; i < req_cnt; i++) {
			const struct target t = { .request = reqs[i], .object = &somewhere,
				.name = reqs[i]->func + 5, .from_pattern = true,
				.refused = "only wished for" };

			targets_add(targets, &t);
		}
		return 0;
	}

	static int wish_plan(struct draft *draft, size_t first, size_t cnt,
		const struct plan_rules *rules, struct err *err)
	{
		return 0;
	}

	const struct target_kind target_wish = { .number = TARGET_WISH, .prefix = "hope",
		.noun = "wish", .find = wish_find, .plan = wish_plan };
	END
}

changed_files() { # COPY
	diff -rq "$ROOT/cmd" "$1/cmd"
	diff -rq "$ROOT/lib" "$1/lib" | wc -l
}

setup_file() {
	local copy=$BATS_FILE_TMPDIR/copy o=$BATS_FILE_TMPDIR/o BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR dir

	common_setup_file
	need_tool make jq
	mkdir -p "$copy" "$o/bpf" "$o/gen"
	cp -r "$ROOT"/{GNUmakefile,bpf,cmd,lib,tests} "$copy"
	add_figure "$copy"
	assert_eq "$(changed_files "$copy")" 3
	add_kind "$copy"
	assert_eq "$(changed_files "$copy")" 6
	# The programs in the kernel are as they were, and so are directories below the changed ones.
	cp "$O"/bpf/*.bpf.o "$o/bpf"
	cp "$O"/gen/* "$o/gen"
	for dir in base proc elf code unwind preset find kernel; do
		mkdir -p "$o/lib/$dir"
		grep -q __asan_init "$FUNCSNOOP" || cp "$O/lib/$dir"/*.o "$o/lib/$dir"
	done
	capture -t 600 make -C "$copy" O="$o" WERROR=1 CFLAGS=-O0 "$o/funcsnoop"
}

setup() {
	common_setup
	CHANGED=$BATS_FILE_TMPDIR/o/funcsnoop
}

@test "layers: a metric added in three files is in all formats and options of stats" {
	local total

	need_bpf
	fsn attach g --raw fix_add fix_ret --lib "$FIX/libfix.so"
	capture "$FIX/call" add 100
	capture "$FIX/call" ret 10

	capture "$CHANGED" stats g
	assert_output_match '^FUNCTION +CALLS +TIME% +TOTAL +HALF +AVG '
	capture "$CHANGED" stats g --json
	# A busy machine may interrupt either, so either may be longer.
	total=$(jq '.[0].functions[] | select(.name == "fix_add").total_ns' <<<"$output")
	[[ $total -gt 1000 ]] || fail "total_ns is $total"
	assert_json '.[0].functions[] | select(.name == "fix_add").half_ns' "$((total / 2))"
	assert_json '.[0].functions[0] | keys_unsorted | index("half_ns") - index("self_ns")' 1
	capture "$CHANGED" stats g --format csv
	assert_output_match ',total_ns,outer_ns,self_ns,half_ns,avg_ns,'
	assert_output_match ",fix_add,.*,$total,$total,$total,$((total / 2)),"
	capture "$CHANGED" stats g --format openmetrics
	assert_output_line "# HELP funcsnoop_half_seconds Half the time."
	assert_output_line "# UNIT funcsnoop_half_seconds seconds"
	assert_output_match '^funcsnoop_half_seconds_total\{group="g",function="fix_add",.* 0[.]0*[1-9]'

	capture "$CHANGED" stats g --sort half --json
	assert_json '.[0].functions | map(.half_ns) | . == (sort | reverse)' true
	capture -s 2 "$CHANGED" stats g --sort third
	assert_stderr_match "--sort is total, self, half, .* or name, not 'third'"
	capture "$CHANGED" help stats
	assert_output_match 'Sort by total, self, half, '
	capture -s 3 "$CHANGED" stats g --fail-if 'half>0ns'
	assert_stderr_match "fix_add of g: half is .* \(half>0ns\)"
	capture -s 2 "$CHANGED" stats g --fail-if 'third>0ns'
	assert_stderr_match 'untimed, total, outer, self, half, on_cpu, '

	capture "$CHANGED" stats g --save "$BATS_TEST_TMPDIR/saved.json"
	capture "$CHANGED" stats g --diff "$BATS_TEST_TMPDIR/saved.json"
	assert_output_match '^fix_add +half +'
	capture -s 0 "$CHANGED" stats g --diff "$BATS_TEST_TMPDIR/saved.json" --fail-if 'half>1%'
	capture "$CHANGED" stats g --watch -i 0.01 -d 0.03
	assert_output_match '^FUNCTION +CALLS/S'
	fsn detach g
}

@test "layers: a kind of target added as a file, a number and a row works" {
	capture "$CHANGED" attach g --dry-run --json hope:peace fix_add \
		"p:$FIX/libfix.so:fix_ret" --lib "$FIX/libfix.so"
	assert_json '.[0].functions | map([.name, .refused])' \
		'[["fix_add",null],["fix_ret",null],["peace","only wished for"]]'
	capture -s 1 "$CHANGED" attach g --dry-run hope:peace --lib "$FIX/libfix.so"
	assert_stderr_match "no wish can be probed: 'peace': only wished for"
	fsn -s 1 attach g --dry-run hope:peace
	assert_stderr_match "no library or program 'hope'"
}
