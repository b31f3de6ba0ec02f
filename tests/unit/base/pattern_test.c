// SPDX-License-Identifier: BSD-2-Clause
// Globs, regular expressions, near names, and demangling with bounds.
#include "base/text.h"

#include <errno.h>
#include <time.h>

#include "elf/elf_file.h"
#include "tap.h"

static void test_globs(void)
{
	static const struct {
		const char *glob, *name;
		bool match;
	} cases[] = {
		{ "cudaMalloc", "cudaMalloc", true },
		{ "cudaMalloc", "cudaMallocHost", false },
		{ "cuda*", "cudaMalloc", true },
		{ "cuda*", "cuMalloc", false },
		{ "*", "", true },
		{ "", "", true },
		{ "", "a", false },
		{ "?", "", false },
		{ "?", "a", true },
		{ "??", "a", false },
		{ "*alloc*", "cudaMallocHost", true },
		{ "*Async", "cudaMemcpyAsync_ptsz", false },
		{ "a*b*c", "aXbYbZc", true },
		{ "a*b*c", "aXbYbZ", false },
		{ "a**c", "abc", true },
		{ "[abc]x", "bx", true },
		{ "[a-c]x", "cx", true },
		{ "[a-c]x", "dx", false },
		{ "[!a-c]x", "dx", true },
		{ "[^a-c]x", "bx", false },
		{ "[]a]x", "]x", true },
		{ "[]a]x", "bx", false },
		{ "[a-]x", "-x", true },
		{ "[\\]]x", "]x", true },
		{ "operator[]", "operator[]", true },
		{ "operator[", "operator[", true },
		{ "a[", "a", false },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "a\\", "a\\", true },
		{ "*[0-9]", "cudaMemcpy3", true },
		{ "*[0-9]", "cudaMemcpy3D", false },
		{ "caf?", "caf\xc3\xa9", false },
		{ "caf*", "caf\xc3\xa9", true },
		{ "[\xc3\xff]", "\xc3", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(pattern_glob(cases[i].glob, cases[i].name) == cases[i].match,
			"glob '%s' %s '%s'", cases[i].glob,
			cases[i].match ? "matches" : "does not match", cases[i].name);
	ok(pattern_is_glob("a*") && pattern_is_glob("[") && pattern_is_glob("?"),
		"*, ? and [ make a glob");
	ok(!pattern_is_glob("a.b+c$"), "other signs don't");
}

static void test_hard_glob(void)
{
	char name[4096], glob[256];
	struct timespec a, b;

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (size_t i = 0; i < sizeof(glob) - 2; i += 2) {
		glob[i] = 'a';
		glob[i + 1] = '*';
	}
	strcpy(glob + sizeof(glob) - 2, "b");
	clock_gettime(CLOCK_MONOTONIC, &a);
	ok(!pattern_glob(glob, name), "a glob of many stars does not match");
	clock_gettime(CLOCK_MONOTONIC, &b);
	ok(b.tv_sec - a.tv_sec < 5, "and says so in time");
}

static void test_regex(void)
{
	struct pattern p;
	struct err err = { 0 };

	is_int(pattern_init(&p, PATTERN_REGEX, "^cuda(Malloc|Free)$", &err), 0,
		"a regular expression compiles");
	ok(pattern_match(&p, "cudaFree"), "it matches a whole name");
	ok(!pattern_match(&p, "cudaFreeHost"), "its anchors hold");
	pattern_done(&p);
	is_int(pattern_init(&p, PATTERN_REGEX, "alloc", &err), 0, "another one compiles");
	ok(pattern_match(&p, "cudaMallocHost"), "without anchors it matches anywhere");
	pattern_done(&p);
	is_int(pattern_init(&p, PATTERN_REGEX, "a(b", &err), -EINVAL,
		"a bad one does not");
	is_str(err.msg, "bad regular expression 'a(b': Unmatched ( or \\(",
		"and the error says why");
	is_int(pattern_init(&p, PATTERN_GLOB, "cu*", &err), 0, "a glob is prepared");
	ok(pattern_match(&p, "cuInit") && !pattern_match(&p, "nvInit"), "and matches");
	pattern_done(&p);
}

/* The suggestion if @word is the only candidate for the missing @wanted. */
static const char *suggestion(const char *wanted, const char *word)
{
	static struct err err;

	err = (struct err) {};
	suggest_hint(&err, wanted, (const char *const[]){ word, NULL });
	return err.hint;
}

static void test_suggestions(void)
{
	static const char *const names[] = { "cudaMalloc", "cudaMallocHost", "cudaFree",
		"cudaMalloc3D", "cuInit" };
	struct suggest s;
	char text[256];

	/* A quarter of the letters may differ; their case does not count. */
	is_str(suggestion("kitten", "sitting"), "", "three letters of six are too many");
	is_str(suggestion("cudaMalloc", "kudaMaloc"), "did you mean 'kudaMaloc'",
		"two of ten are not: replaced, and left out");
	is_str(suggestion("cudaMalloc", "kudaMalok"), "", "but three are");
	is_str(suggestion("abc", "acb"), "did you mean 'acb'",
		"two swapped letters are one change");
	is_str(suggestion("ab", "AB"), "did you mean 'AB'", "capitals are no change");
	is_str(suggestion("ab", "ab"), "", "the name itself is none");
	is_str(suggestion("", "abc"), "", "nor is anything near nothing");
	suggest_init(&s, "cudaMaloc");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		suggest_offer(&s, names[i], NULL);
	suggest_text(&s, text, sizeof(text));
	is_str(text, "did you mean 'cudaMalloc'", "the near name, and none that is far");
	suggest_init(&s, "xyzzy");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		suggest_offer(&s, names[i], NULL);
	is_int(suggest_text(&s, text, sizeof(text)), 0, "nothing near, nothing said");
	is_str(text, "", "and the text is empty");
	suggest_init(&s, "libx.so.1");
	suggest_offer(&s, "libx.so.2", "/a");
	suggest_offer(&s, "libx.so.2", "/b");
	suggest_offer(&s, "libx.so.3", "/c");
	suggest_text(&s, text, sizeof(text));
	is_str(text, "did you mean 'libx.so.2' in /a or 'libx.so.3' in /c",
		"every name once, with its place");
	is_int(suggest_text(&s, text, 12), 11, "a short buffer is not overrun");
	is_str(text, "did you mea", "the text is cut");
}

static void test_demangling(void)
{
	static const struct {
		const char *symbol, *name, *args;
	} cases[] = {
		{ "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE",
			"torch::nn::LinearImpl::forward",
			"torch::nn::LinearImpl::forward(at::Tensor const&)" },
		{ "_ZNK4shop4Cart5totalEv", "shop::Cart::total",
			"shop::Cart::total() const" },
		{ "_Z3maxIiET_S0_S0_", "max<int>", "int max<int>(int, int)" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write",
			"core::fmt::write" },
		{ "_RNvNtCs1234_4core3fmt5write", "core::fmt::write",
			"core::fmt::write" },
		{ "cudaMalloc", NULL, NULL },
		{ "_Zzz", NULL, NULL },
		{ "", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *name = demangle(cases[i].symbol, DEMANGLE_NAME);
		char *args = demangle(cases[i].symbol, DEMANGLE_ARGS);

		is_str(name, cases[i].name, cases[i].symbol);
		is_str(args, cases[i].args, "and with arguments");
		free(name);
		free(args);
	}
}

/* "f" of @cnt arguments, each a pair of two of the one before: 2^@cnt letters come out. */
static char *explode(int cnt)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRS";
	char symbol[1024] = "_Z1fSt4pairI1aS0_E", part[32];

	for (int i = 1; i < cnt; i++) {
		snprintf(part, sizeof(part), "S_IS%c_S%c_E", digits[i], digits[i]);
		strcat(symbol, part);
	}
	return demangle(symbol, DEMANGLE_ARGS);
}

static void test_huge_demangling(void)
{
	char *text, *many;

	text = explode(8);
	is_int(text ? strlen(text) : 0, 7300, "a name of 100 letters becomes 7300");
	free(text);
	text = explode(28);
	is_str(text, NULL, "one that would become a thousand million is given up");
	free(text);
	many = malloc(DEMANGLE_MAX_IN + 16);
	strcpy(many, "_Z");
	memset(many + 2, 'P', DEMANGLE_MAX_IN);
	many[DEMANGLE_MAX_IN + 2] = '\0';
	text = demangle(many, DEMANGLE_ARGS);
	is_str(text, NULL, "a name too long is not tried");
	free(many);
}

int main(void)
{
	test_globs();
	test_hard_glob();
	test_regex();
	test_suggestions();
	test_demangling();
	test_huge_demangling();
	return tap_done();
}
