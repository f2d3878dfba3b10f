package sandbox

import "time"

// A Description describes a named sandbox to programs. Sizes are in bytes.
type Description struct {
	Name         string    `json:"name"`
	State        string    `json:"state"`
	Kind         string    `json:"kind"`
	Version      string    `json:"version"`
	PID          int       `json:"pid"`
	Memory       int64     `json:"memory_bytes"`
	Disk         int64     `json:"disk_bytes,omitempty"`
	Uptime       float64   `json:"uptime_seconds"`
	Started      time.Time `json:"started"`
	DataDir      string    `json:"data_dir"`
	Socket       string    `json:"socket"`
	Port         int       `json:"port,omitempty"`
	PasswordFile string    `json:"password_file,omitempty"`
	Target       string    `json:"target"`
	Sandbox      string    `json:"sandbox"`
	// Head is the sandbox of which it is a node. Nodes are its own, after start.
	Head  string        `json:"head,omitempty"`
	Role  string        `json:"role,omitempty"`
	Nodes []Description `json:"nodes,omitempty"`
}

// Describe returns the description of a sandbox, with its uptime at now.
func (in Instance) Describe(now time.Time) Description {
	d := Description{
		Name: in.Name, State: in.State, Kind: in.Kind, Version: in.Version, PID: in.PID, Memory: in.Options.OwnMemory(),
		Disk: in.Bytes, Started: in.Started, DataDir: in.DataDir, Port: in.Port, PasswordFile: in.PasswordFile,
		Sandbox: in.Options.Target(), Head: in.Head, Role: in.Role,
	}
	if in.State == Running {
		d.Socket, d.Target, d.Uptime = in.Socket, in.Info.Target(), now.Sub(in.Started).Seconds()
	}
	return d
}
