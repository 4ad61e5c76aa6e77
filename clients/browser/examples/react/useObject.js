import { useEffect, useState } from "react";

/** The newest version of an object as state of a component: `{ objectId, version, payload, deleted }`, or null. */
export function useObject(notify, objectId) {
  const [newest, setNewest] = useState(() => notify.register(objectId).current);
  useEffect(() => {
    const registration = notify.register(objectId);
    setNewest(registration.current); // what was told before this page was loaded
    const subscription = registration.subscribe(setNewest);
    return () => subscription.dispose();
  }, [notify, objectId]);
  return newest;
}
