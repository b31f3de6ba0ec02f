/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON document of `funcsnoop feature`. */
#ifndef FUNCSNOOP_SHOW_JSON_FEATURE_H
#define FUNCSNOOP_SHOW_JSON_FEATURE_H

#include "attach/calibrate.h"
#include "attach/feature.h"
#include "show/globals.h"

/* Prints it; @calibration is NULL when there was none. The command's exit status. */
int json_feature(const struct globals *g, const struct feature_report *report,
	const struct calibration *calibration);

#endif
