package config

// Doctor is the settings of `troupe doctor`.
type Doctor struct {
	Model string `arg:"" optional:"" name:"MODEL" help:"Model folder, GGUF file, or name of a hub that has been fetched, to be judged, too; exit status 1 if it does not fit."`

	Quantization string `enum:"none,q8_0,q4_0" default:"none" placeholder:"TYPE" help:"Judge the model as quantised at load to this type."`
	KVCacheDType string `name:"kv-cache-dtype" default:"auto" placeholder:"TYPE" help:"Judge the model with keys and values of this type."`
	ReadMiB      int    `name:"read-mib" default:"512" help:"MiB that are read plainly, to tell the memory's bandwidth; far more than the caches hold."`

	JSON string `name:"json" placeholder:"FILE" help:"Also write the report as JSON; - = standard output, instead of the table."`
}

// Check returns the first impossible setting.
func (d *Doctor) Check() error {
	return (&intRange{"--read-mib", d.ReadMiB, 1, 1 << 20}).check()
}
