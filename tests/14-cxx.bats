# SPDX-License-Identifier: BSD-2-Clause
# C++: functions by demangled names, and calls that an exception ends.
# bats file_tags=bpf

load helpers

CART=$FIX/libcart.so
FORWARD=torch::nn::LinearImpl::forward

need_cart() {
	need_bpf
	need_fixture cartcall
}

dry_names() { # FUNCTION...: the names that these are found under, a line each
	fsn attach g "$@" --lib "$CART" --dry-run --json
	output=$(json '.[0].functions | map(.name) | sort[]')
}

@test "c++: names can omit arguments, template arguments or both" {
	need_fixture cartcall
	dry_names shop::Cart::total
	assert_output "shop::Cart::total"
	dry_names 'shop::Cart::total() const'
	assert_output "shop::Cart::total() const"
	dry_names 'shop::Cart::add(long)'
	assert_output "shop::Cart::add(long)"
	dry_names shop::Cart::add_all
	assert_output "shop::Cart::add_all<int>
shop::Cart::add_all<short>"
	dry_names 'shop::Cart::add_all<short>'
	assert_output "shop::Cart::add_all<short>"
	fsn attach g shop::Cart::add --lib "$CART" --dry-run --json
	assert_json '.[0].functions | map(.demangled) | sort | map(sub("std::__cxx11::"; "")
		| sub("basic_string<.*> const&"; "string const&"))' \
		'["shop::Cart::add(long)","shop::Cart::add(string const&, long)"]'
}

@test "c++: a glob selects all methods of a class, each once" {
	need_fixture cartcall
	fsn attach g 'shop::Cart::*' --lib "$CART" --dry-run --json
	assert_json '.[0].functions | length' 7
	assert_json '.[0].functions | map(.offset) | unique | length' 7
	assert_json '.[0].functions | map(.name) | unique | length' 7
	fsn attach g -r '^shop::Cart::(add|total)\(' --lib "$CART" --dry-run --json
	assert_json '.[0].functions | length' 3
}

@test "c++: outer scopes can be omitted if one name ends like it" {
	local name

	need_fixture cartcall
	need_tool c++
	for name in total Cart::total; do
		fsn attach g $name --lib "$CART" --dry-run --json
		assert_json '.[0].functions | map(.name)' '["shop::Cart::total"]'
	done
	fsn attach g Linear --lib "$FIX/libhazcxx.so" --dry-run --json
	assert_json '.[0].functions[0].name | startswith("hz::Linear::Linear")' true
	cat >"$BATS_TEST_TMPDIR/own.cc" <<-'END'
		namespace a { __attribute__((noinline)) int twice(int n) { return 2 * n; } }
		namespace b { __attribute__((noinline)) int twice(int n) { return n + n; } }
		int main(int n, char **) { return a::twice(n) - b::twice(n); }
	END
	c++ -O1 -o "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/own.cc"
	fsn -s 1 attach g "$BATS_TEST_TMPDIR/own:twice" --dry-run
	assert_stderr_match "did you mean '.*own:a::twice' or '.*own:b::twice'$"
	# An exact name, or one that the library imports, is that.
	fsn -s 1 attach g "$BATS_TEST_TMPDIR/own:__libc_start_main" --dry-run
	assert_stderr_match 'is only imported by '
}

@test "c++: a name with a wrong scope or letter gets a similar one as a hint" {
	need_fixture cartcall
	fsn -s 1 attach g shop::Bag::total --lib "$CART" --dry-run
	assert_stderr_match "^hint: did you mean 'shop::Cart::total'"
	fsn -s 1 attach g totl --lib "$CART" --dry-run
	assert_stderr_match "^hint: did you mean 'shop::Cart::total'"
	fsn -s 1 attach g xyz --lib "$CART" --dry-run
	refute_stderr_match "did you mean"
}

@test "c++: a glob or an expression that matches symbols shows demangled names" {
	need_fixture cartcall
	dry_names '*Cart*add*'
	assert_output_line "shop::Cart::add(long)"
	assert_output_line "shop::Cart::add_all<short>"
	refute_output_match _Z
	fsn attach g -r '^_ZN4shop4Cart5totalE|_ZNK4shop4Cart5totalE' --lib "$CART" --dry-run --json
	assert_json '.[0].functions | map(.name)' '["shop::Cart::total"]'
}

@test "c++: a table in a pipe has short names that differ" {
	need_cart
	fsn attach g 'shop::Cart::*' --lib "$CART"
	fsn stats g --all
	assert_output_match '^shop::Cart::add\(long\) +0 '
	assert_output_match '^shop::Cart::add\(std::.*(\.\.\.|…).*, long\) +0 '
	refute_output_match '^shop.{57}[^ ]'
	fsn detach g
}

@test "c++: methods of a class are counted separately" {
	need_cart
	fsn attach g 'shop::Cart::*' --lib "$CART"
	capture "$FIX/cartcall" plain 40
	assert_output "result plain calls=40 returned=40 thrown=0 total=right"
	fsn stats g --json --all
	assert_sound
	assert_json '.[0].functions | map(.calls) | sort' '[1,1,1,1,1,1,41]'
	assert_json '.[0].functions[] | select(.calls == 41) | .symbol' _ZN4shop4Cart3addEl
	fsn detach g
}

@test "c++: calls of a method that throw are abandoned, and the others return" {
	local link lib

	need_cart
	for lib in "$CART" "$FIX/stripped/libcart.so"; do
		for link in auto perf; do
			fsn attach g 'shop::Cart::add(long)' --lib "$lib" --link $link
			assert_ends g ret
			LD_LIBRARY_PATH=${lib%/*} capture "$FIX/cartcall" throw 200
			assert_output "result throw calls=200 returned=150 thrown=50 total=right"
			assert_numbers g "shop::Cart::add(long) 201 0 151 0 50 0"
			fsn detach g
		done
	done
	fsn attach g 'shop::Cart::add(long)' --lib "$CART"
	capture "$FIX/cartcall" plain 200
	assert_output "result plain calls=200 returned=200 thrown=0 total=right"
	assert_numbers g "shop::Cart::add(long) 201 0 201 0 0 0"
	fsn detach g
}

@test "c++: a misspelled method gets the nearest one as a hint" {
	need_fixture cartcall
	fsn -s 1 attach g shop::Cart::totl --lib "$CART" --dry-run
	assert_stderr "funcsnoop attach: no function 'shop::Cart::totl' in $CART
hint: did you mean 'shop::Cart::total'"
}

# --- libtorch ------------------------------------------------------------------------------

@test "c++: a hint for the name of a scope has its members, the shortest name first" {
	fsn -s 1 attach g hz::Linear --lib "$FIX/libhazcxx.so" --dry-run
	assert_stderr_match "^hint: did you mean 'hz::Linear::Linear' or 'hz::Linear::make'$"
	fsn -s 1 attach g hz --lib "$FIX/libhazcxx.so" --dry-run
	assert_stderr_match "^hint: did you mean 'hz::over'$"
	fsn -s 1 attach g inear --lib "$FIX/libhazcxx.so" --dry-run
	refute_stderr_match 'make'
}

need_torch() {
	need_bpf
	[[ -e $FIX/torchcall ]] || skip "no libtorch with headers here (Debian: libtorch-dev)"
}

torch_numbers() {
	fsn stats g --json
	assert_sound
	assert_json '.[0].functions | map([.name, .calls, .returns, .abandoned, .in_flight,
		.untimed])' "$1"
}

@test "torch: 200 forward calls with 50 exceptions have 150 returns" {
	need_torch
	fsn attach g $FORWARD --lib torch_cpu
	assert_ends g early
	capture "$FIX/torchcall" throw 200
	assert_output "result throw calls=200 returned=150 thrown=50"
	torch_numbers "[[\"$FORWARD\",200,150,50,0,0]]"
	fsn reset g
	capture "$FIX/torchcall" plain 200
	assert_output "result plain calls=200 returned=200 thrown=0"
	torch_numbers "[[\"$FORWARD\",200,200,0,0,0]]"
	fsn detach g
}

@test "torch: calls of each function of the libtorch preset are timed" {
	need_torch
	fsn attach libtorch --name g --dry-run --json
	assert_json '[.[0].functions[] | select(.refused or .exit == "none"
		or (.exit_why | test("not timed"))) | .name]' '[]'
}

@test "torch: the libtorch preset counts the function and its callees" {
	need_torch
	fsn attach libtorch --name g
	capture "$FIX/torchcall" throw 200
	assert_output "result throw calls=200 returned=150 thrown=50"
	fsn stats g --json
	assert_sound
	assert_json ".[0].functions[] | select(.name == \"$FORWARD\")
		| [.calls, .returns, .abandoned]" "[200,150,50]"
	assert_json_true '.[0].functions | map(select(.calls > 0)) | length > 2'
	fsn detach g
}
