package wheelcache

// FreezeDriver keeps the driver from running until ThawDriver, as a starved
// machine would.
func (c *Cache[K, V]) FreezeDriver() { c.driver.running.Lock() }

// ThawDriver undoes FreezeDriver.
func (c *Cache[K, V]) ThawDriver() { c.driver.running.Unlock(); c.run() }
