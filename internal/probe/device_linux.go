package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
)

// device is a block device that stores the data.
type device struct {
	number devNumber
	// name is the kernel's name: "sda1", "nvme0n1p2", "dm-0".
	name string
	// partOf describes the other devices of the file system, "" if there is only
	// one.
	partOf string
}

func (sys system) blockDir(n devNumber) string {
	return filepath.Join(sys.sys, "dev/block", n.String())
}

// device returns the block device that stores dir. File systems without a device
// number of their own (btrfs, overlay) are looked up in the mount table: btrfs
// by the device it was mounted from, overlay by its upper layer, which receives
// the writes.
func (sys system) device(dir string) (device, error) {
	holder, _, err := sys.stat(dir)
	if err != nil {
		return device{}, err
	}
	if !holder.anonymous() {
		return sys.blockDevice(holder)
	}
	m, err := sys.mount(dir)
	if err != nil {
		return device{}, fmt.Errorf("no block device behind %s: %w", dir, err)
	}
	source := unescapeMount(m.Source)
	switch {
	case m.FSType == "overlay":
		upper := unescapeMount(m.SuperOptions["upperdir"])
		holder, _, err := sys.stat(upper)
		if err != nil || holder.anonymous() {
			return device{}, fmt.Errorf("no block device behind %s: overlay, and its upper layer %q can't be followed from here", dir, upper)
		}
		return sys.blockDevice(holder)
	case strings.HasPrefix(source, "/"):
		_, itself, err := sys.stat(source)
		if err != nil {
			return device{}, fmt.Errorf("no block device behind %s: %s: %w", dir, m.FSType, err)
		}
		if itself == 0 {
			break
		}
		d, err := sys.blockDevice(itself)
		if err == nil && m.FSType == "btrfs" {
			d.partOf = sys.btrfsOf(d.name)
		}
		return d, err
	}
	return device{}, fmt.Errorf("no block device behind %s: %s", dir, m.FSType)
}

// blockDevice returns the block device with a device number, if the kernel shows it.
func (sys system) blockDevice(n devNumber) (device, error) {
	path, err := filepath.EvalSymlinks(sys.blockDir(n))
	if err != nil {
		return device{}, fmt.Errorf("find block device %s: %w", n, err)
	}
	return device{number: n, name: filepath.Base(path)}, nil
}

// btrfsOf describes the btrfs that a device belongs to, if it has several devices.
func (sys system) btrfsOf(name string) string {
	found, err := filepath.Glob(filepath.Join(sys.sys, "fs/btrfs/*/devices", name))
	if err != nil || len(found) == 0 {
		return ""
	}
	all, err := os.ReadDir(filepath.Dir(found[0]))
	if err != nil || len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("a btrfs over %d", len(all))
}

// mount returns the mount that contains dir: the longest mount point that is a
// prefix of it, and the last of equal ones, which covers the others.
func (sys system) mount(dir string) (*procfs.MountInfo, error) {
	real, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.EvalSymlinks(real); err != nil {
		return nil, err
	}
	fs, err := procfs.NewFS(sys.proc)
	if err != nil {
		return nil, err
	}
	mounts, err := fs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var best *procfs.MountInfo
	longest := -1
	for _, m := range mounts {
		point := unescapeMount(m.MountPoint)
		within := point == "/" || real == point || strings.HasPrefix(real, point+"/")
		if within && len(point) >= longest {
			best, longest = m, len(point)
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no mount holds %s", real)
	}
	return best, nil
}

// filesystem returns the type of the file system of dir, "" if unknown.
func (sys system) filesystem(dir string) string {
	m, err := sys.mount(dir)
	if err != nil {
		return ""
	}
	return m.FSType
}

// unescapeMount reverses the kernel's escapes in mountinfo: spaces, tabs, line
// feeds and backslashes are written as a backslash and three octal digits.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// describeDevice returns the description of a device: of the disk of a
// partition, or of the first disk below a mapped device.
func (sys system) describeDevice(d device) string {
	dir, err := filepath.EvalSymlinks(sys.blockDir(d.number))
	if err != nil {
		return d.name
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	// Mapped devices can be stacked: encryption on a volume on a RAID.
	for range 8 {
		slaves, err := filepath.Glob(filepath.Join(dir, "slaves/*"))
		if err != nil || len(slaves) == 0 {
			break
		}
		if dir, err = filepath.EvalSymlinks(slaves[0]); err != nil {
			return d.name
		}
		if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
			dir = filepath.Dir(dir)
		}
	}
	name := d.name
	if disk := filepath.Base(dir); disk != name {
		name += " on " + disk
	}
	var says []string
	if model := readLine(filepath.Join(dir, "device/model")); model != "" {
		says = append(says, model)
	}
	switch readLine(filepath.Join(dir, "queue/rotational")) {
	case "0":
		says = append(says, "not rotational")
	case "1":
		says = append(says, "rotational")
	}
	if cache := readLine(filepath.Join(dir, "queue/write_cache")); cache != "" {
		says = append(says, cache+" cache")
	}
	if d.partOf != "" {
		says = append(says, "one of "+d.partOf)
	}
	if len(says) == 0 {
		return name
	}
	return name + ": " + strings.Join(says, ", ")
}
