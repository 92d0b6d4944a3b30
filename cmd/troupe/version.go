package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version returns the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "0.0.0-" + s.Value[:12]
		}
	}
	return "0.0.0-dev"
}

func versionLine() string {
	return fmt.Sprintf("troupe %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
