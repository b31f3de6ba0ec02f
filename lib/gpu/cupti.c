// SPDX-License-Identifier: BSD-2-Clause
// Which libcupti is the process' own, and whether somebody else uses it.
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cupti.h"

/* Tools that use CUPTI in the same way, of which it has one at a time. */
static const char *const tools[] = { "libToolsInjection", "libcuinj64", "libparcagpu",
	"libaccinj", "libTreeLauncher" };

struct loaded {
	char cupti[PATH_MAX], runtime[PATH_MAX];
	const char *other;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *l = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	if (!strncmp(name, "libcupti.so", 11))
		snprintf(l->cupti, sizeof(l->cupti), "%s", info->dlpi_name);
	if (!strncmp(name, "libcudart.so", 12))
		snprintf(l->runtime, sizeof(l->runtime), "%s", info->dlpi_name);
	for (size_t i = 0; i < sizeof(tools) / sizeof(*tools); i++)
		if (!strncmp(name, tools[i], strlen(tools[i])))
			l->other = tools[i];
	return 0;
}

static void *try_open(const char *path, char who[FSN_GPU_WHO])
{
	const char *slash = strrchr(path, '/');
	void *lib = *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (lib)
		snprintf(who, FSN_GPU_WHO, "%s", slash ? slash + 1 : path);
	return lib;
}

/* That of the process; else that beside its runtime; else the toolkit's. */
static void *open_cupti(const struct loaded *l, char who[FSN_GPU_WHO])
{
	static const char *const beside[] = { "", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/" };
	static const char *const usual[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
		"libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
		"/usr/local/cuda/lib64/libcupti.so" };
	const char *said = getenv("FUNCSNOOP_CUPTI"), *slash = strrchr(l->runtime, '/');
	const char *version = slash ? strstr(slash, ".so") : NULL;
	char path[2 * PATH_MAX];
	void *lib = said ? try_open(said, who) : try_open(l->cupti, who);

	for (size_t i = 0; !said && !lib && version && i < sizeof(beside) / sizeof(*beside); i++) {
		snprintf(path, sizeof(path), "%.*s/%slibcupti%s", (int)(slash - l->runtime),
			l->runtime, beside[i], version);
		lib = try_open(path, who);
	}
	for (size_t i = 0; !said && !lib && i < sizeof(usual) / sizeof(*usual); i++)
		lib = try_open(usual[i], who);
	return lib;
}

static bool take_functions(struct cupti *cupti, void *lib)
{
#define X(name, symbol, args) *(void **)&cupti->name = dlsym(lib, #symbol);
	CUPTI_FUNCS(X)
#undef X
	/* The flush period is younger than the rest: since CUDA 11.1. */
	return cupti->register_callbacks && cupti->enable && cupti->disable && cupti->next &&
		cupti->dropped && cupti->flush;
}

enum fsn_gpu_state cupti_find(struct cupti *ret, char who[FSN_GPU_WHO])
{
	struct loaded loaded = {};
	void *lib;

	snprintf(who, FSN_GPU_WHO, "libcupti");
	dl_iterate_phdr(look_at, &loaded);
	if (loaded.other) {
		snprintf(who, FSN_GPU_WHO, "%s", loaded.other);
		return FSN_GPU_TAKEN;
	}
	lib = open_cupti(&loaded, who);
	return lib && take_functions(ret, lib) ? FSN_GPU_RUNS : FSN_GPU_NO_LIB;
}

/* For who is no job: whether one could be seen. */
EXPORT int funcsnoop_gpu_try(struct fsn_gpu_tried *ret);
int funcsnoop_gpu_try(struct fsn_gpu_tried *ret)
{
	struct cupti cupti = {};

	ret->code = 0;
	ret->state = cupti_find(&cupti, ret->who);
	if (ret->state == FSN_GPU_RUNS)
		ret->code = cupti.enable(CUPTI_CONCURRENT_KERNEL);
	if (ret->code)
		ret->state = FSN_GPU_REFUSED;
	return 0;
}
